// ControlStreams: Worker runs the I/O thread on epoll. Its peers are sockets that have sent nothing yet (FirstBytes),
// streams (Stream) and connections of relays (Relay), each with an id. Read Worker::run() first, then serve(), then the
// functions for each kind of peer.
#include "launcherd/service/control_streams.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/clock.h"
#include "base/net.h"
#include "base/thread.h"
#include "launcherd/relays/first_bytes.h"
#include "launcherd/relays/relay_connection.h"
#include "launcherd/service/control_stream.h"
#include "launcherd/service/front_door.h"

namespace muster::launcherd::inline service {
namespace {

using base::MonotonicTime;

constexpr std::uint64_t kControlWake = 0;
constexpr std::uint64_t kControlListen = 1;
constexpr int kControlAccepts = 64;
constexpr std::chrono::milliseconds kControlPause{100};
constexpr std::chrono::seconds kGiveWay{1};
constexpr std::chrono::minutes kLinePause{1};
constexpr std::chrono::seconds kEndPatience{5};  // for an agent that does not read our End
constexpr std::size_t kMessageOverhead = 512;    // approximate memory of a message in addition to its bytes
constexpr std::chrono::milliseconds kLongestWait{60'000};

struct Order {
  enum class Kind { kAdd, kSend, kEnd, kHandled };
  Kind kind = Kind::kSend;
  std::uint64_t stream = 0;
  std::shared_ptr<const std::string> frames{};
  std::size_t bytes = 0;
  base::UniqueFd fd{};
};

std::shared_ptr<const std::string> end_frame(const std::string& reason) {
  auto frame = std::make_shared<std::string>();
  const std::string_view text = std::string_view(reason).substr(0, proto::kMaxEndReason);
  proto::append_control_header(proto::ControlKind::kEnd, text.size(), *frame);
  frame->append(text);
  return frame;
}

}  // namespace

class ControlStreams::Worker {
 public:
  Worker(base::Loop& loop, ControlStreamsOptions options) : options_(std::move(options)), outlet_(loop) {
    outlet_.shared->on_arrivals = options_.on_arrivals;
    outlet_.shared->on_line = options_.on_line;
  }
  ~Worker() { stop(); }

  base::Status start();
  void post(Order order);
  void stop();
  void set_expected(std::size_t agents) { expected_ = agents; }

 private:
  struct Stream {
    std::unique_ptr<ControlStream> stream;
    std::uint64_t relay = 0;   // 0: it has a socket of its own
    std::uint32_t number = 0;  // in the relay's connection
    std::size_t unhandled = 0;
    bool was_proven = false;
    bool is_ending = false;
    bool is_deaf = false;  // a frame could not be read
    std::uint32_t polled = 0;
  };
  struct Relay {
    std::unique_ptr<relays::RelayConnection> connection;
    std::unordered_map<std::uint32_t, std::uint64_t> streams;  // ids by number
    std::size_t proven = 0;                                    // streams that are proven
    MonotonicTime lonely_since{};                              // no stream is proven since then
    std::uint32_t polled = 0;
  };
  // How the thread reaches the loop.
  struct Outlet {
    explicit Outlet(base::Loop& loop_in) : loop(loop_in), shared(std::make_shared<Shared>()) {}
    struct Shared {
      std::function<void(std::vector<ControlArrival>)> on_arrivals;
      std::function<void(const std::string&)> on_line;
      bool is_open = true;  // loop thread only
    };
    base::Loop& loop;
    std::shared_ptr<Shared> shared;
  };
  struct Waiting {
    std::uint64_t id = 0;
    MonotonicTime deadline{};
  };

  void run();
  int timeout(MonotonicTime now) const;
  void take_orders();
  void obey(Order& order);
  void accept_some();
  void pause_accepting(int problem);
  void make_room(MonotonicTime now);
  void add(base::UniqueFd fd);
  void serve(std::uint64_t id);
  void serve_fresh(std::uint64_t id);
  void begin_relay(std::uint64_t id, base::UniqueFd fd);
  void serve_relay(std::uint64_t id);
  void flush_relays();
  void add_stream(std::uint64_t id, Stream stream);
  void serve_stream(std::uint64_t id);
  void stop_reading(std::uint64_t id, Stream& stream);
  void handle(std::uint64_t id, Stream& stream, const proto::ControlFrame& frame);
  void proven(std::uint64_t id, Stream& stream);
  void handled(std::uint64_t id, std::size_t bytes);
  void write(std::uint64_t id);
  void close_stream(std::uint64_t id);
  void close_relay(std::uint64_t id);
  void close_any(std::uint64_t id);
  bool is_unproven(std::uint64_t id) const;
  void drop_late(MonotonicTime now);
  void poll(int fd, std::uint64_t id, std::uint32_t events, std::uint32_t& polled);
  void deliver();
  void report(ControlArrival arrival) { arrivals_.push_back(std::move(arrival)); }

  const ControlStreamsOptions options_;
  Outlet outlet_;
  std::optional<base::TlsContext> tls_;
  base::UniqueFd epoll_;
  base::UniqueFd wake_;
  std::unordered_map<std::uint64_t, relays::FirstBytes> fresh_;
  std::unordered_map<std::uint64_t, Stream> streams_;
  std::unordered_map<std::uint64_t, Relay> relays_;
  std::deque<Waiting> unproven_;    // oldest first; may hold ids that are proven or closed
  std::deque<Waiting> ending_;      // oldest first; may hold ids that are closed
  std::set<std::uint64_t> lonely_;  // relays without a proven stream that once had one
  std::set<std::uint64_t> unsent_;  // streams to which something was sent in this turn
  std::vector<std::uint64_t> hot_;  // peers with more to read although their socket may be quiet
  std::vector<ControlArrival> arrivals_;
  std::uint64_t next_id_ = kControlListen + 1;
  std::optional<MonotonicTime> accept_again_;
  std::optional<MonotonicTime> last_line_;
  std::atomic<std::size_t> expected_{0};

  std::mutex mutex_;  // guards the two members below
  std::vector<Order> orders_;
  bool is_stopping_ = false;
  std::thread thread_;
};

base::Status ControlStreams::Worker::start() {
  MUSTER_ASSIGN_OR_RETURN(auto tls, base::TlsContext::server(options_.keys, base::TlsReads::kRecord));
  tls_ = std::move(tls);
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_.valid() || !wake_.valid()) return base::errno_error(errno, "control streams: epoll");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kControlWake;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) {
    return base::errno_error(errno, "control streams");
  }
  MUSTER_RETURN_IF_ERROR(base::set_nonblocking(options_.listening.get(), true));
  event.data.u64 = kControlListen;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, options_.listening.get(), &event) != 0) {
    return base::errno_error(errno, "control streams: listening socket");
  }
  MUSTER_ASSIGN_OR_RETURN(thread_, base::start_thread([this] { run(); }));
  return base::ok_status();
}

void ControlStreams::Worker::post(Order order) {
  const std::lock_guard lock(mutex_);
  if (is_stopping_) return;
  orders_.push_back(std::move(order));
  if (orders_.size() == 1) ::eventfd_write(wake_.get(), 1);
}

void ControlStreams::Worker::stop() {
  outlet_.shared->is_open = false;
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    ::eventfd_write(wake_.get(), 1);
  }
  thread_.join();
}

void ControlStreams::Worker::run() {
  sigset_t all;  // other threads handle signals; a cut connection shows as an error of write
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::array<epoll_event, 256> ready;
  for (;;) {
    const int wait = timeout(std::chrono::steady_clock::now());
    const int count = ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), wait);
    take_orders();
    for (const std::uint64_t id : std::exchange(hot_, {})) serve(id);
    for (int i = 0; i < count; ++i) {
      const std::uint64_t id = ready[static_cast<std::size_t>(i)].data.u64;
      if (id == kControlListen) accept_some();
      if (id > kControlListen) serve(id);
    }
    drop_late(std::chrono::steady_clock::now());
    for (const std::uint64_t id : std::exchange(unsent_, {})) write(id);
    flush_relays();
    deliver();
    const std::lock_guard lock(mutex_);
    if (is_stopping_ && orders_.empty()) return;
  }
}

int ControlStreams::Worker::timeout(MonotonicTime now) const {
  if (!hot_.empty() || !unsent_.empty()) return 0;  // a flush of a relay may have served streams
  MonotonicTime next = now + kLongestWait;
  if (accept_again_) next = std::min(next, *accept_again_);
  if (!unproven_.empty()) next = std::min(next, unproven_.front().deadline);
  if (!ending_.empty()) next = std::min(next, ending_.front().deadline);
  for (const std::uint64_t id : lonely_) next = std::min(next, relays_.at(id).lonely_since + kProveTime);
  return static_cast<int>(std::max<long>(std::chrono::ceil<std::chrono::milliseconds>(next - now).count(), 0));
}

void ControlStreams::Worker::take_orders() {
  std::vector<Order> orders;
  {
    const std::lock_guard lock(mutex_);
    eventfd_t count = 0;
    ::eventfd_read(wake_.get(), &count);
    orders.swap(orders_);
  }
  for (Order& order : orders) obey(order);
}

void ControlStreams::Worker::obey(Order& order) {
  if (order.kind == Order::Kind::kAdd) return add(std::move(order.fd));
  const auto found = streams_.find(order.stream);
  if (found == streams_.end()) return;
  switch (order.kind) {
    case Order::Kind::kAdd:
      break;
    case Order::Kind::kSend:
      if (!found->second.is_ending) found->second.stream->send(std::move(order.frames));
      unsent_.insert(order.stream);
      break;
    case Order::Kind::kEnd:
      found->second.stream->send(std::move(order.frames));
      found->second.is_ending = true;
      ending_.push_back({order.stream, std::chrono::steady_clock::now() + kEndPatience});
      unsent_.insert(order.stream);
      break;
    case Order::Kind::kHandled:
      handled(order.stream, order.bytes);
      break;
  }
}

void ControlStreams::Worker::accept_some() {
  for (int i = 0; i < kControlAccepts; ++i) {
    base::UniqueFd fd(::accept4(options_.listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.valid()) {
      add(std::move(fd));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (is_out_of_descriptors(errno)) {
      return pause_accepting(errno);
    }  // all other errors mean that the connection failed before it was accepted
  }
}

// If accept() fails, the socket stays readable, so waiting for it would spin. The kernel holds new connections.
void ControlStreams::Worker::pause_accepting(int problem) {
  const MonotonicTime now = std::chrono::steady_clock::now();
  accept_again_ = now + kControlPause;
  make_room(now);
  epoll_event none{};
  none.data.u64 = kControlListen;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, options_.listening.get(), &none);
  if (last_line_ && now - *last_line_ < kLinePause) return;
  last_line_ = now;
  outlet_.loop.post([shared = outlet_.shared, problem] {
    if (!shared->is_open || !shared->on_line) return;
    shared->on_line(fmt::format(
        "the control port: cannot accept a connection: {}; new connections wait until you raise the limit (ulimit -n)",
        std::strerror(problem)));
  });
}

// Closes the connections that have not proved who they are within kGiveWay. An agent needs less, and connects again.
void ControlStreams::Worker::make_room(MonotonicTime now) {
  while (!unproven_.empty() && unproven_.front().deadline - kProveTime + kGiveWay <= now) {
    if (is_unproven(unproven_.front().id)) close_any(unproven_.front().id);
    unproven_.pop_front();
  }
}

void ControlStreams::Worker::add(base::UniqueFd fd) {
  base::tune_output_socket(fd.get());
  const std::uint64_t id = next_id_++;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) != 0) return;  // closes it: no memory, or no socket
  fresh_.emplace(id, relays::FirstBytes(std::move(fd)));
  unproven_.push_back({id, std::chrono::steady_clock::now() + kProveTime});
}

void ControlStreams::Worker::serve(std::uint64_t id) {
  if (streams_.contains(id)) return serve_stream(id);
  if (relays_.contains(id)) return serve_relay(id);
  if (fresh_.contains(id)) serve_fresh(id);
}

void ControlStreams::Worker::serve_fresh(std::uint64_t id) {
  using Peer = relays::FirstBytes::Peer;
  relays::FirstBytes& fresh = fresh_.at(id);
  const Peer peer = fresh.read();
  if (peer == Peer::kUnknown) return;
  if (peer == Peer::kGone) return close_any(id);
  base::UniqueFd fd = fresh.take();
  fresh_.erase(id);
  if (peer == Peer::kRelay) return begin_relay(id, std::move(fd));
  Stream stream{.stream = std::make_unique<ControlStream>(base::TlsStream(*tls_, std::move(fd))), .polled = EPOLLIN};
  add_stream(id, std::move(stream));
}

void ControlStreams::Worker::begin_relay(std::uint64_t id, base::UniqueFd fd) {
  Relay& relay = relays_[id];
  relay.polled = EPOLLIN;
  relays::RelayConnection::Events events;
  events.on_open = [this, id](std::uint32_t number, std::unique_ptr<base::ByteChannel> channel) {
    const std::uint64_t stream = next_id_++;
    relays_.at(id).streams[number] = stream;
    unproven_.push_back({stream, std::chrono::steady_clock::now() + kProveTime});
    add_stream(stream, {.stream = std::make_unique<ControlStream>(base::TlsStream(*tls_, std::move(channel))),
                        .relay = id,
                        .number = number});
  };
  events.on_ready = [this, id](std::uint32_t number) {
    const auto found = relays_.at(id).streams.find(number);
    if (found != relays_.at(id).streams.end()) serve_stream(found->second);
  };
  relay.connection = std::make_unique<relays::RelayConnection>(std::move(fd), std::move(events));
  serve_relay(id);
}

void ControlStreams::Worker::serve_relay(std::uint64_t id) {
  relays::RelayConnection& connection = *relays_.at(id).connection;
  const base::Status status = connection.serve();
  if (!status.ok()) return close_relay(id);
  if (connection.has_more()) hot_.push_back(id);
}

void ControlStreams::Worker::flush_relays() {
  std::vector<std::uint64_t> broken;
  for (auto& [id, relay] : relays_) {
    const base::Status status = relay.connection->write_pending();
    if (!status.ok()) {
      broken.push_back(id);
      continue;
    }
    poll(relay.connection->fd(), id,
         EPOLLIN | (relay.connection->wants_write() ? static_cast<std::uint32_t>(EPOLLOUT) : 0U), relay.polled);
  }
  for (const std::uint64_t id : broken) close_relay(id);
}

void ControlStreams::Worker::add_stream(std::uint64_t id, Stream stream) {
  streams_.emplace(id, std::move(stream));
  serve_stream(id);
}

void ControlStreams::Worker::serve_stream(std::uint64_t id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  Stream& stream = found->second;
  const base::Status status =
      stream.stream->serve([this, id, &stream](const proto::ControlFrame& frame) { handle(id, stream, frame); });
  if (stream.stream->is_proven() && !stream.was_proven) proven(id, stream);
  if (status.code() == base::Code::kInvalidArgument && stream.was_proven) return stop_reading(id, stream);
  if (!status.ok()) return close_stream(id);
  if (stream.stream->has_more()) hot_.push_back(id);
  unsent_.insert(id);  // write() sets what epoll watches
}

// The bytes after such a frame have no meaning, and the agent would send the frame again on its next stream. So the
// loop gives the agent up, and ends the stream after its last order. Until the agent has closed it, its bytes are
// dropped: unread bytes would make the kernel reset the connection, and the agent might miss that order.
void ControlStreams::Worker::stop_reading(std::uint64_t id, Stream& stream) {
  if (std::exchange(stream.is_deaf, true)) return;
  stream.stream->is_discarding = true;
  report({.stream = id, .kind = ControlArrival::Kind::kUnreadable});
  ending_.push_back({id, std::chrono::steady_clock::now() + kEndPatience});
  hot_.push_back(id);
}

void ControlStreams::Worker::proven(std::uint64_t id, Stream& stream) {
  stream.was_proven = true;
  report({.stream = id, .kind = ControlArrival::Kind::kProven, .identity = stream.stream->identity()});
  if (stream.relay == 0) return;
  Relay& relay = relays_.at(stream.relay);
  ++relay.proven;
  lonely_.erase(stream.relay);
  relay.connection->proven(stream.number);
}

void ControlStreams::Worker::handle(std::uint64_t id, Stream& stream, const proto::ControlFrame& frame) {
  if (!stream.was_proven) proven(id, stream);  // the first messages may come in the same turn
  ControlArrival arrival{.stream = id};
  switch (frame.kind) {
    case proto::ControlKind::kEnd:
      return;  // the agent closes the connection next
    case proto::ControlKind::kUnreadable:
      arrival.kind = ControlArrival::Kind::kUnreadable;
      break;
    case proto::ControlKind::kMessage:
      if (!arrival.message.ParseFromArray(frame.payload.data(), static_cast<int>(frame.payload.size()))) {
        arrival.kind = ControlArrival::Kind::kUnreadable;
        break;
      }
      arrival.bytes = frame.payload.size() + kMessageOverhead;
      stream.unhandled += arrival.bytes;
      stream.stream->is_held_back = stream.unhandled > kMostUnhandled;
  }
  report(std::move(arrival));
}

void ControlStreams::Worker::handled(std::uint64_t id, std::size_t bytes) {
  Stream& stream = streams_.at(id);
  stream.unhandled -= std::min(bytes, stream.unhandled);
  if (!stream.stream->is_held_back || stream.unhandled > kMostUnhandled / 2) return;
  stream.stream->is_held_back = false;
  hot_.push_back(id);  // bytes may be buffered although the socket is quiet
}

void ControlStreams::Worker::write(std::uint64_t id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  Stream& stream = found->second;
  if (!stream.stream->write_pending().ok() || (stream.is_ending && !stream.is_deaf && !stream.stream->has_unsent())) {
    return close_stream(id);
  }
  if (stream.relay != 0) return;
  const std::uint32_t reads = stream.stream->is_held_back ? 0U : static_cast<std::uint32_t>(EPOLLIN);
  const std::uint32_t writes = stream.stream->wants_write() ? static_cast<std::uint32_t>(EPOLLOUT) : 0U;
  poll(stream.stream->fd(), id, reads | writes, stream.polled);
}

void ControlStreams::Worker::close_stream(std::uint64_t id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  if (found->second.was_proven) report({.stream = id, .kind = ControlArrival::Kind::kEnd});
  if (const auto relay = relays_.find(found->second.relay); relay != relays_.end()) {
    relay->second.streams.erase(found->second.number);
    if (found->second.was_proven && --relay->second.proven == 0) {
      relay->second.lonely_since = std::chrono::steady_clock::now();
      lonely_.insert(relay->first);
    }
  }
  streams_.erase(found);
}

void ControlStreams::Worker::close_relay(std::uint64_t id) {
  const auto found = relays_.find(id);
  if (found == relays_.end()) return;
  for (const auto& [number, stream] : std::unordered_map(found->second.streams)) close_stream(stream);
  lonely_.erase(id);
  relays_.erase(id);
}

void ControlStreams::Worker::close_any(std::uint64_t id) {
  close_stream(id);
  close_relay(id);
  fresh_.erase(id);
}

bool ControlStreams::Worker::is_unproven(std::uint64_t id) const {
  if (fresh_.contains(id)) return true;
  if (const auto stream = streams_.find(id); stream != streams_.end()) return !stream->second.was_proven;
  const auto relay = relays_.find(id);
  return relay != relays_.end() && relay->second.proven == 0 && !lonely_.contains(id);
}

// Closes connections that have not proved in time who they are, and the oldest ones if there are too many.
void ControlStreams::Worker::drop_late(MonotonicTime now) {
  std::erase_if(unproven_, [this](const Waiting& waiting) { return !is_unproven(waiting.id); });
  const std::size_t most = options_.most_unproven.value_or(unproven_limit()) + expected_;
  while (!unproven_.empty() && (unproven_.front().deadline <= now || unproven_.size() > most)) {
    close_any(unproven_.front().id);
    unproven_.pop_front();
  }
  while (!ending_.empty() && ending_.front().deadline <= now) {
    close_stream(ending_.front().id);
    ending_.pop_front();
  }
  for (const std::uint64_t id : std::set<std::uint64_t>(lonely_)) {
    if (relays_.at(id).lonely_since + kProveTime <= now) close_relay(id);
  }
  if (!accept_again_ || *accept_again_ > now) return;
  accept_again_.reset();
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kControlListen;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, options_.listening.get(), &event);
}

void ControlStreams::Worker::poll(int fd, std::uint64_t id, std::uint32_t events, std::uint32_t& polled) {
  if (events == polled) return;
  polled = events;
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void ControlStreams::Worker::deliver() {
  if (arrivals_.empty()) return;
  outlet_.loop.post([shared = outlet_.shared, arrivals = std::exchange(arrivals_, {})]() mutable {
    if (shared->is_open) shared->on_arrivals(std::move(arrivals));
  });
}

base::Result<std::unique_ptr<ControlStreams>> ControlStreams::start(base::Loop& loop, ControlStreamsOptions options) {
  auto worker = std::make_unique<Worker>(loop, std::move(options));
  MUSTER_RETURN_IF_ERROR(worker->start());
  return std::unique_ptr<ControlStreams>(new ControlStreams(std::move(worker)));
}

ControlStreams::ControlStreams(std::unique_ptr<Worker> worker) : worker_(std::move(worker)) {}
ControlStreams::~ControlStreams() = default;

void ControlStreams::add_connection(base::UniqueFd fd) {
  worker_->post({.kind = Order::Kind::kAdd, .fd = std::move(fd)});
}

void ControlStreams::send(std::uint64_t stream, std::shared_ptr<const std::string> frames) {
  worker_->post({.kind = Order::Kind::kSend, .stream = stream, .frames = std::move(frames)});
}

void ControlStreams::end(std::uint64_t stream, const std::string& reason) {
  worker_->post({.kind = Order::Kind::kEnd, .stream = stream, .frames = end_frame(reason)});
}

void ControlStreams::handled(std::uint64_t stream, std::size_t bytes) {
  worker_->post({.kind = Order::Kind::kHandled, .stream = stream, .bytes = bytes});
}

void ControlStreams::set_expected(std::size_t agents) {
  worker_->set_expected(agents);
}

}  // namespace muster::launcherd::service
