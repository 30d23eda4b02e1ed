// The TCPStore server: accepting, one turn over ready connections, sending, and renew().
// Read begin() and turn() first, then serve(), receive() and send_outputs(), then listen() and renew().
#include "rendezvous/tcp_store_server.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/descriptor_limit.h"
#include "base/net.h"

namespace muster::rendezvous {
namespace {

constexpr std::size_t kReadBytes = 128 << 10;  // from one connection in one turn
constexpr int kSendsPerTurn = 4;
constexpr int kRoundsPerTurn = 4;  // rounds over ready connections before other users of the loop get their turn

// A peer whose host is lost is detected after two minutes. A peer that is only stopped still answers, so it stays.
void set_options(int fd) {
  const auto set = [fd](int level, int name, int value) { ::setsockopt(fd, level, name, &value, sizeof value); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 6);
}

}  // namespace

class TcpStoreServer::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(base::Loop* loop, base::UniqueFd listening, TcpStoreServerConfig config)
      : loop_(loop), listening_(std::move(listening)), config_(std::move(config)) {}
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  base::Status begin(Store* store);
  base::Status renew(Store* store);
  TcpStoreCounters counters() const;
  TcpStoreHub& hub() { return *hub_; }
  std::optional<TcpStoreClient> client_at(const base::IpAddress& peer, std::uint16_t port);

 private:
  struct Connection {
    Connection(base::UniqueFd fd_, ConnectionEnds ends_) : fd(std::move(fd_)), ends(std::move(ends_)) {}

    base::UniqueFd fd;
    const ConnectionEnds ends;
    std::unique_ptr<TcpStoreSession> session;
    bool is_polled = false;  // registered in the epoll, for the events in `interest`
    std::uint32_t interest = 0;
    bool has_output = false;  // listed in with_output_
    bool is_ended = false;    // the peer sends no more; the server closes once all replies are sent
    bool is_closed = false;
  };

  void turn();
  void turn_soon();
  bool serve_ready();
  void serve(Connection* connection, std::uint32_t events);
  void receive(Connection* connection);
  void note_output(Connection* connection);
  void send_outputs();
  void send(Connection* connection);

  base::Status listen();
  void check(const ConnectionEnds& ends, std::function<void(bool)> done);
  void add(base::UniqueFd fd);

  void update_interest(Connection* connection);
  void fail(Connection* connection, const base::Status& status);
  void report(const ConnectionEnds& ends, const base::Status& status) const;
  void close(Connection* connection);

  base::Loop* const loop_;
  const base::UniqueFd listening_;
  const TcpStoreServerConfig config_;
  base::UniqueFd epoll_;
  std::unique_ptr<TcpStoreHub> hub_;
  std::unordered_map<Connection*, std::unique_ptr<Connection>> connections_;
  // The connections by their peers' ends. client_at() makes it, and a change of connections_ drops it.
  std::optional<std::map<std::pair<base::IpAddress, std::uint16_t>, const Connection*>> by_peer_;
  std::vector<std::unique_ptr<Connection>> closed_;  // freed after the turn, because its lists may still point to them
  std::vector<Connection*> with_output_;
  bool is_in_turn_ = false;
  bool is_turn_due_ = false;
  TcpStoreCounters counters_;
  std::array<epoll_event, 128> ready_{};
  std::vector<char> buffer_ = std::vector<char>(kReadBytes);
  base::Timer readable_;
  std::unique_ptr<CheckedListener> listener_;
};

base::Status TcpStoreServer::Impl::begin(Store* store) {
  int is_listening = 0;
  socklen_t size = sizeof is_listening;
  if (::getsockopt(listening_.get(), SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &size) != 0 || is_listening == 0) {
    return base::invalid_argument("the descriptor for the TCPStore is not a listening socket");
  }
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return base::errno_error(errno, "create an epoll for the TCPStore");
  hub_ = std::make_unique<TcpStoreHub>(store, config_.hint, config_.limits);
  readable_ = loop_->on_readable(epoll_.get(), [this] { turn(); });
  return listen();
}

TcpStoreServer::Impl::~Impl() {
  is_in_turn_ = true;  // do not schedule a turn
  while (!connections_.empty()) close(connections_.begin()->first);
}

base::Status TcpStoreServer::Impl::renew(Store* store) {
  loop_->assert_inside();
  listener_.reset();  // this also drops unchecked connections
  while (!connections_.empty()) close(connections_.begin()->first);
  // Drop connections in the backlog, too, because they belong to the old generation. Limit the loop, because a client
  // could connect again and again.
  for (int i = 0; i < 1 << 16; ++i) {
    if (!base::UniqueFd(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC)).valid()) break;
  }
  hub_ = std::make_unique<TcpStoreHub>(store, config_.hint, config_.limits);
  return listen();
}

TcpStoreCounters TcpStoreServer::Impl::counters() const {
  TcpStoreCounters result = counters_;
  result.open = connections_.size();
  return result;
}

std::optional<TcpStoreClient> TcpStoreServer::Impl::client_at(const base::IpAddress& peer, std::uint16_t port) {
  if (!by_peer_) {
    by_peer_.emplace();
    for (const auto& [connection, owned] : connections_) {
      by_peer_->emplace(std::pair(connection->ends.peer, connection->ends.peer_port), connection);
    }
  }
  const auto found = by_peer_->find({peer, port});
  if (found == by_peer_->end()) return std::nullopt;
  return TcpStoreClient{.wait = found->second->session->oldest_wait()};
}

void TcpStoreServer::Impl::turn() {
  is_in_turn_ = true;
  for (int round = 0; round < kRoundsPerTurn && serve_ready(); ++round) {
  }
  is_in_turn_ = false;
}

void TcpStoreServer::Impl::turn_soon() {
  if (is_in_turn_ || is_turn_due_) return;
  is_turn_due_ = true;
  loop_->post([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->is_turn_due_ = false;
    self->turn();
  });
}

bool TcpStoreServer::Impl::serve_ready() {
  const int count = ::epoll_wait(epoll_.get(), ready_.data(), static_cast<int>(ready_.size()), 0);
  for (int i = 0; i < count; ++i) {
    auto* connection = static_cast<Connection*>(ready_[static_cast<std::size_t>(i)].data.ptr);
    if (!connection->is_closed) serve(connection, ready_[static_cast<std::size_t>(i)].events);
  }
  send_outputs();
  closed_.clear();
  return count > 0;
}

void TcpStoreServer::Impl::serve(Connection* connection, std::uint32_t events) {
  const bool is_broken = (events & (EPOLLERR | EPOLLHUP)) != 0;
  if (!connection->is_ended && connection->session->wants_input()) {
    if (is_broken || (events & EPOLLIN) != 0) receive(connection);  // bytes that arrived before the break still count
  } else if (is_broken) {
    close(connection);
  }
  if (!connection->is_closed && (events & EPOLLOUT) != 0) note_output(connection);
}

void TcpStoreServer::Impl::receive(Connection* connection) {
  const ssize_t size = ::recv(connection->fd.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (size < 0) {
    if (errno != EAGAIN && errno != EINTR) close(connection);
    return;
  }
  if (size == 0) {
    connection->is_ended = true;
    note_output(connection);
    return;
  }
  const base::Status status = connection->session->receive({buffer_.data(), static_cast<std::size_t>(size)});
  if (!status.ok()) {
    fail(connection, status);
  } else if (!connection->session->output().empty()) {
    note_output(connection);
  }
}

void TcpStoreServer::Impl::note_output(Connection* connection) {
  if (connection->has_output) return;
  connection->has_output = true;
  with_output_.push_back(connection);
  turn_soon();
}

void TcpStoreServer::Impl::send_outputs() {
  for (std::size_t i = 0; i < with_output_.size();
       ++i) {  // the list may grow, since sending allows more requests to be served
    Connection* connection = with_output_[i];
    connection->has_output = false;
    if (!connection->is_closed) send(connection);
  }
  with_output_.clear();
}

void TcpStoreServer::Impl::send(Connection* connection) {
  TcpStoreSession& session = *connection->session;
  base::Status status = session.failure();
  for (int i = 0; i < kSendsPerTurn && status.ok() && !session.output().empty(); ++i) {
    const std::string_view output = session.output();
    const ssize_t size = ::send(connection->fd.get(), output.data(), output.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size < 0) {
      if (errno == EAGAIN || errno == EINTR) break;
      close(connection);
      return;
    }
    status = session.consume_output(static_cast<std::size_t>(size));
  }
  if (!status.ok()) {
    fail(connection, status);
  } else if (connection->is_ended && session.output().empty()) {
    close(connection);
  } else {
    update_interest(connection);
  }
}

// Pass a copy of the descriptor, because the listener closes it, and renew() listens again on the original.
base::Status TcpStoreServer::Impl::listen() {
  base::UniqueFd copy(::fcntl(listening_.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return base::errno_error(errno, "copy the TCPStore's listening socket");
  listener_ = std::make_unique<CheckedListener>(
      *loop_, std::move(copy),
      [this](const ConnectionEnds& ends, std::function<void(bool)> done) { check(ends, std::move(done)); },
      [this](base::UniqueFd fd) { add(std::move(fd)); }, config_.listener);
  return base::ok_status();
}

void TcpStoreServer::Impl::check(const ConnectionEnds& ends, std::function<void(bool)> done) {
  config_.owner_check(ends, [weak = weak_from_this(), silent = hub_->expect_silent(ends.peer.str()), ends,
                             done = std::move(done)](bool is_allowed) {
    const auto self = weak.lock();
    if (self != nullptr && !is_allowed) {
      ++self->counters_.refused;
      self->report(ends, base::permission_denied("its owner is not the job's user or is unknown"));
    }
    done(is_allowed);
  });
}

void TcpStoreServer::Impl::add(base::UniqueFd fd) {
  auto ends = connection_ends(fd.get());
  if (!ends.ok()) return;  // the peer has gone
  if (connections_.size() >= std::min(config_.max_connections, base::descriptor_limit() - base::spare_descriptors())) {
    ++counters_.refused;
    report(*ends, base::resource_exhausted("{} connections are open already", connections_.size()));
    return;
  }
  ++counters_.accepted;
  set_options(fd.get());
  auto made = std::make_unique<Connection>(std::move(fd), std::move(*ends));
  Connection* connection = made.get();
  connection->session = std::make_unique<TcpStoreSession>(hub_.get(), connection->ends.peer.str(),
                                                          [this, connection] { note_output(connection); });
  connections_.emplace(connection, std::move(made));
  by_peer_.reset();
  update_interest(connection);
}

void TcpStoreServer::Impl::update_interest(Connection* connection) {
  epoll_event event{};
  event.data.ptr = connection;
  if (!connection->is_ended && connection->session->wants_input()) event.events |= EPOLLIN;
  if (!connection->session->output().empty()) event.events |= EPOLLOUT;
  if (connection->is_polled && event.events == connection->interest) return;
  const int operation = connection->is_polled ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  if (::epoll_ctl(epoll_.get(), operation, connection->fd.get(), &event) != 0) {
    fail(connection, base::errno_error(errno, "wait for it with epoll"));
    return;
  }
  connection->is_polled = true;
  connection->interest = event.events;
}

void TcpStoreServer::Impl::fail(Connection* connection, const base::Status& status) {
  ++counters_.failed;
  report(connection->ends, status);
  // Send replies to valid requests, as much as the socket accepts.
  const std::string_view output = connection->session->output();
  if (!output.empty()) {
    [[maybe_unused]] const ssize_t sent =
        ::send(connection->fd.get(), output.data(), output.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  close(connection);
}

void TcpStoreServer::Impl::report(const ConnectionEnds& ends, const base::Status& status) const {
  if (!config_.on_problem) return;
  config_.on_problem(status.with_context(
      fmt::format("TCPStore: connection from {} closed", base::format_endpoint(ends.peer, ends.peer_port))));
}

void TcpStoreServer::Impl::close(Connection* connection) {
  // Remove the descriptor from the epoll explicitly. Closing it is not enough, because a child that is being spawned
  // may hold a copy for a moment.
  if (connection->is_polled) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection->fd.get(), nullptr);
  connection->is_closed = true;
  connection->session.reset();
  connection->fd.reset();
  const auto found = connections_.find(connection);
  closed_.push_back(std::move(found->second));
  connections_.erase(found);
  by_peer_.reset();
  turn_soon();
}

base::Result<std::unique_ptr<TcpStoreServer>> TcpStoreServer::start(base::Loop* loop, base::UniqueFd listening,
                                                                    Store* store, TcpStoreServerConfig config) {
  MUSTER_CHECK(config.owner_check != nullptr);
  auto impl = std::make_shared<Impl>(loop, std::move(listening), std::move(config));
  MUSTER_RETURN_IF_ERROR(impl->begin(store));
  return std::unique_ptr<TcpStoreServer>(new TcpStoreServer(std::move(impl)));
}

TcpStoreServer::TcpStoreServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

TcpStoreServer::~TcpStoreServer() = default;

base::Status TcpStoreServer::renew(Store* store) {
  return impl_->renew(store);
}

TcpStoreCounters TcpStoreServer::counters() const {
  return impl_->counters();
}

TcpStoreHub& TcpStoreServer::hub() {
  return impl_->hub();
}

std::optional<TcpStoreClient> TcpStoreServer::client_at(const base::IpAddress& peer, std::uint16_t port) {
  return impl_->client_at(peer, port);
}

}  // namespace muster::rendezvous
