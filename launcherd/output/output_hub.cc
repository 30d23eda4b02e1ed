// OutputHub: commands from other threads, and Worker, which runs the hub's thread on epoll.
// Read Worker::run first, then accept_connections and the functions for frames, then the public functions at the end.
#include "launcherd/output/output_hub.h"

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>

#include "base/clock.h"
#include "base/thread.h"
#include "base/tls.h"
#include "launcherd/output/hub_connection.h"
#include "launcherd/output/hub_flows.h"
#include "launcherd/relays/first_bytes.h"
#include "launcherd/relays/relay_connection.h"
#include "proto/peer_names.h"

namespace muster::launcherd::inline output {
namespace {

using base::Code;
using base::MonotonicTime;
using proto::OutputKind;

constexpr std::uint64_t kWakeId = 0;
constexpr std::uint64_t kListenId = 1;
constexpr int kAcceptsPerTurn = 16;
constexpr int kMostAcceptTurns = 256;                          // exceeds the number of connections that can wait
constexpr auto kAcceptPause = std::chrono::milliseconds(100);  // avoids a busy loop while descriptors run out

struct AddJob {
  std::string job;
  OutputSink* sink;
  OutputHubEvents events;
};
struct RemoveJob {
  std::string job;
  std::promise<void>* done;  // fulfilled when the command was handled, or when the hub will never handle it
};
struct ExpectAgent {
  std::string job;
  ExpectedAgent expected;  // without its secret
};
struct ExpectRanks {
  std::string job;
  int agent = 0;
  std::vector<int> ranks;
};

struct ForgetAgent {
  std::string job;
  int agent;
};
struct AgentEnded {
  std::string job;
  int agent;
};
struct AddConnection {
  base::UniqueFd fd;
};
using Command = std::variant<AddJob, RemoveJob, ExpectAgent, ExpectRanks, ForgetAgent, AgentEnded, AddConnection>;

}  // namespace

class OutputHub::Worker {
 public:
  Worker(OutputHubConfig config, base::UniqueFd listening)
      : config_(std::move(config)), listening_(std::move(listening)) {}
  ~Worker() { stop(); }

  base::Status start();
  void post(Command command);
  void stop();
  base::TlsKeyRing& keys() { return *keys_; }

 private:
  void run();
  void handle_commands();
  void on(AddJob command);
  void on(RemoveJob command);
  void on(ExpectAgent command);
  void on(const ExpectRanks& command);
  void on(const ForgetAgent& command);
  void on(const AgentEnded& command);
  void on(AddConnection command);
  void forget(int flow);
  int timeout() const;
  bool accept_connections();
  void add(base::UniqueFd fd);
  void serve(std::uint64_t id);
  void serve_fresh(std::uint64_t id);
  void add_relay(std::uint64_t id, base::UniqueFd fd);
  void serve_relay(std::uint64_t id);
  void flush_relays();
  void serve_connection(std::uint64_t id);
  base::Status on_frame(std::uint64_t id, HubConnection* connection, const proto::OutputFrame& frame);
  base::Status on_hello(std::uint64_t id, HubConnection* connection, const proto::OutputFrame& frame);
  base::Status acknowledge(HubConnection* connection);
  void watch(std::uint64_t id, HubConnection* connection);
  bool is_pending(std::uint64_t id) const;
  void close_relay(std::uint64_t id, const base::Status& why);
  void close(std::uint64_t id, const base::Status& why);
  void drop_late();
  void report_cut();
  void report_stranger(const base::Status& status) const;

  const OutputHubConfig config_;
  const std::shared_ptr<base::TlsKeyRing> keys_ = std::make_shared<base::TlsKeyRing>();
  std::optional<base::TlsContext> tls_;
  base::UniqueFd listening_;
  base::UniqueFd epoll_;
  base::UniqueFd wake_;
  ReadScratch scratch_;

  HubFlows flows_;
  struct Relay {
    std::unique_ptr<relays::RelayConnection> connection;
    std::unordered_map<std::uint32_t, std::uint64_t> streams;  // ids of connections
    MonotonicTime lonely_since{};                              // it has no stream with a Hello since then
    std::size_t accepted = 0;                                  // streams with a Hello
    std::uint32_t polled = 0;
  };

  std::unordered_map<std::uint64_t, relays::FirstBytes> fresh_;  // sockets that have sent nothing yet
  std::unordered_map<std::uint64_t, Relay> relays_;
  std::unordered_map<std::uint64_t, std::unique_ptr<HubConnection>> connections_;
  // Peers without a Hello, oldest first. May also hold ids of closed or accepted connections.
  struct Pending {
    std::uint64_t id = 0;
    MonotonicTime deadline{};  // of idle_time_
  };
  std::deque<Pending> pending_;
  // Flows whose agent is gone, until the hub has read everything that the agent sent. `before` is the number that the
  // next new connection had when the agent was reported gone.
  struct Ended {
    int flow;
    std::uint64_t before;
  };
  std::vector<Ended> ended_;
  std::vector<std::uint64_t> hot_;  // connections with more to read although their socket may be quiet
  std::uint64_t next_id_ = kListenId + 1;
  // Time that the hub has spent waiting. Timeouts count this time only, so a blocked console makes no connection late.
  MonotonicTime idle_time_{};
  MonotonicTime accept_again_{};
  bool is_accept_paused_ = false;

  std::mutex mutex_;  // guards the two members below
  std::vector<Command> commands_;
  bool is_stopping_ = false;
  std::thread thread_;
};

base::Status OutputHub::Worker::start() {
  MUSTER_ASSIGN_OR_RETURN(auto tls, base::TlsContext::server(keys_));
  tls_ = std::move(tls);
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_.valid() || !wake_.valid()) return base::errno_error(errno, "output hub: epoll");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeId;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) return base::errno_error(errno, "output hub");
  event.data.u64 = kListenId;
  if (listening_.valid()) {
    MUSTER_RETURN_IF_ERROR(base::set_nonblocking(listening_.get(), true));
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listening_.get(), &event) != 0) {
      return base::errno_error(errno, "output hub: listening socket");
    }
  }
  MUSTER_ASSIGN_OR_RETURN(thread_, base::start_thread([this] { run(); }));
  return base::ok_status();
}

void OutputHub::Worker::post(Command command) {
  const std::lock_guard lock(mutex_);
  if (is_stopping_) {
    if (const RemoveJob* remove = std::get_if<RemoveJob>(&command)) remove->done->set_value();
    return;
  }
  commands_.push_back(std::move(command));
  eventfd_write(wake_.get(), 1);
}

void OutputHub::Worker::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    eventfd_write(wake_.get(), 1);
  }
  thread_.join();
  connections_.clear();
  for (Command& command : commands_) {
    if (const RemoveJob* remove = std::get_if<RemoveJob>(&command)) remove->done->set_value();
  }
  commands_.clear();
}

void OutputHub::Worker::run() {
  // Block signals, because other threads handle them. A cut connection then shows as a write error, not as SIGPIPE.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::array<epoll_event, 64> ready;
  for (;;) {
    const MonotonicTime before = base::monotonic_now();
    const int count = epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), timeout());
    idle_time_ += base::monotonic_now() - before;
    {
      const std::lock_guard lock(mutex_);
      if (is_stopping_) return;
    }
    std::vector<std::uint64_t> hot = std::exchange(hot_, {});
    for (int i = 0; i < count; ++i) {
      const std::uint64_t id = ready[static_cast<std::size_t>(i)].data.u64;
      if (id == kWakeId) {
        handle_commands();
      } else if (id == kListenId) {
        accept_connections();
      } else {
        serve(id);
        std::erase(hot, id);
      }
    }
    for (const std::uint64_t id : hot) serve(id);
    drop_late();
    report_cut();
    flush_relays();
    flows_.settle(hot_.empty());
  }
}

int OutputHub::Worker::timeout() const {
  if (!hot_.empty()) return 0;
  MonotonicTime next = is_accept_paused_ ? accept_again_ : MonotonicTime::max();
  for (const Pending& pending : pending_) {
    if (!is_pending(pending.id)) continue;
    next = std::min(next, pending.deadline);
    break;  // oldest first
  }
  for (const auto& [id, relay] : relays_) {
    if (relay.accepted == 0) next = std::min(next, relay.lonely_since + config_.hello_timeout);
  }
  if (next == MonotonicTime::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - idle_time_).count();
  return static_cast<int>(std::clamp<long>(left, 0, 60'000));
}

void OutputHub::Worker::handle_commands() {
  std::vector<Command> commands;
  {
    const std::lock_guard lock(mutex_);
    eventfd_t count = 0;
    eventfd_read(wake_.get(), &count);
    commands.swap(commands_);
  }
  for (Command& command : commands) {
    std::visit([this](auto& one) { on(std::move(one)); }, command);
  }
}

void OutputHub::Worker::on(AddJob command) {
  flows_.add_job(command.job, command.sink, std::move(command.events));
}

void OutputHub::Worker::on(RemoveJob command) {
  for (const int flow : flows_.of_job(command.job)) {
    keys_->remove(flows_.find(flow)->identity);
    forget(flow);
  }
  flows_.remove_job(command.job);
  command.done->set_value();
}

void OutputHub::Worker::on(ExpectAgent command) {
  on(ForgetAgent{command.job, command.expected.agent});
  flows_.expect(command.job, command.expected);
}

void OutputHub::Worker::on(const ExpectRanks& command) {
  flows_.expect_ranks(flows_.of_agent(command.job, command.agent), command.ranks);
}

void OutputHub::Worker::on(const ForgetAgent& command) {
  forget(flows_.of_agent(command.job, command.agent));
}

// A connection without a Hello, or one that is not accepted yet, may still hold output of the agent. Connections with
// later numbers do not come from this agent.
void OutputHub::Worker::on(const AgentEnded& command) {
  const int number = flows_.of_agent(command.job, command.agent);
  if (flows_.find(number) == nullptr) return;
  for (int turn = 0; turn < kMostAcceptTurns && listening_.valid() && accept_connections(); ++turn) continue;
  ended_.push_back({number, next_id_});
}

// Reads the connections of ended agents to their end at once. A connection without a Hello is closed after its
// timeout.
void OutputHub::Worker::report_cut() {
  std::erase_if(ended_, [this](const Ended& ended) {
    HubFlows::Flow* const flow = flows_.find(ended.flow);
    if (flow == nullptr) return true;
    const bool may_be_pending = !pending_.empty() && pending_.front().id < ended.before;
    if (flow->connection != 0 || may_be_pending) return false;
    flows_.cut(flow);
    return true;
  });
}

void OutputHub::Worker::forget(int number) {
  const HubFlows::Flow* const flow = flows_.find(number);
  if (flow == nullptr) return;
  close(flow->connection, {Code::kCancelled, "the launcher no longer expects this agent"});
  flows_.erase(number);
}

void OutputHub::Worker::on(AddConnection command) {
  add(std::move(command.fd));
}

// Returns true if more connections may be waiting.
bool OutputHub::Worker::accept_connections() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    base::UniqueFd fd(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.valid()) {
      add(std::move(fd));
      continue;
    }
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return errno != EAGAIN;
    // Descriptors or memory ran out. Existing connections continue. The hub tries to accept again after kAcceptPause.
    report_stranger(base::errno_error(errno, "output hub: accept"));
    is_accept_paused_ = true;
    accept_again_ = idle_time_ + kAcceptPause;
    epoll_event none{};
    none.data.u64 = kListenId;
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listening_.get(), &none);
    return false;
  }
  return true;
}

void OutputHub::Worker::add(base::UniqueFd fd) {
  base::tune_output_socket(fd.get());
  const std::uint64_t id = next_id_++;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) != 0) return;  // not a socket, so close it
  fresh_.emplace(id, relays::FirstBytes(std::move(fd)));
  pending_.push_back({id, idle_time_ + config_.hello_timeout});
}

bool OutputHub::Worker::is_pending(std::uint64_t id) const {
  if (fresh_.contains(id)) return true;
  if (const auto relay = relays_.find(id); relay != relays_.end()) return relay->second.accepted == 0;
  const auto found = connections_.find(id);
  return found != connections_.end() && found->second->flow < 0;
}

// Forgets accepted connections. Closes connections that sent no Hello in time, and the oldest ones if too many wait.
void OutputHub::Worker::drop_late() {
  std::erase_if(pending_, [this](const Pending& pending) { return !is_pending(pending.id); });
  while (!pending_.empty()) {
    const Pending oldest = pending_.front();
    const bool is_late = idle_time_ >= oldest.deadline;
    if (!is_late && pending_.size() <= config_.max_pending) break;
    pending_.pop_front();
    close(oldest.id,
          {Code::kDeadlineExceeded, is_late ? "sent no Hello in time" : "too many connections without a Hello"});
  }
  std::vector<std::uint64_t> lonely;
  for (const auto& [id, relay] : relays_) {
    if (relay.accepted == 0 && idle_time_ >= relay.lonely_since + config_.hello_timeout) lonely.push_back(id);
  }
  for (const std::uint64_t id : lonely) close_relay(id, {Code::kDeadlineExceeded, "a relay without agents"});
  if (is_accept_paused_ && idle_time_ >= accept_again_) {
    is_accept_paused_ = false;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kListenId;
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listening_.get(), &event);
  }
}

void OutputHub::Worker::serve(std::uint64_t id) {
  if (relays_.contains(id)) return serve_relay(id);
  if (fresh_.contains(id)) return serve_fresh(id);
  serve_connection(id);
}

void OutputHub::Worker::serve_fresh(std::uint64_t id) {
  using Peer = relays::FirstBytes::Peer;
  relays::FirstBytes& fresh = fresh_.at(id);
  const Peer peer = fresh.read();
  if (peer == Peer::kUnknown) return;
  if (peer == Peer::kGone) return close(id, {Code::kUnavailable, "the peer closed the connection"});
  base::UniqueFd fd = fresh.take();
  fresh_.erase(id);
  if (peer == Peer::kRelay) return add_relay(id, std::move(fd));
  auto connection = std::make_unique<HubConnection>(base::TlsStream(*tls_, std::move(fd)));
  connection->polled_events = EPOLLIN;
  connections_.emplace(id, std::move(connection));
  serve_connection(id);
}

void OutputHub::Worker::add_relay(std::uint64_t id, base::UniqueFd fd) {
  Relay& relay = relays_[id];
  relay.polled = EPOLLIN;
  relay.lonely_since = idle_time_;
  relays::RelayConnection::Events events;
  events.on_open = [this, id](std::uint32_t number, std::unique_ptr<base::ByteChannel> channel) {
    const std::uint64_t stream = next_id_++;
    relays_.at(id).streams[number] = stream;
    auto connection = std::make_unique<HubConnection>(base::TlsStream(*tls_, std::move(channel)));
    connection->relay = id;
    connection->relay_stream = number;
    connections_.emplace(stream, std::move(connection));
    pending_.push_back({stream, idle_time_ + config_.hello_timeout});
  };
  events.on_ready = [this, id](std::uint32_t number) {
    const auto found = relays_.at(id).streams.find(number);
    if (found != relays_.at(id).streams.end()) serve_connection(found->second);
  };
  relay.connection = std::make_unique<relays::RelayConnection>(std::move(fd), std::move(events));
  serve_relay(id);
}

void OutputHub::Worker::serve_relay(std::uint64_t id) {
  relays::RelayConnection& connection = *relays_.at(id).connection;
  const base::Status status = connection.serve();
  if (!status.ok()) return close_relay(id, status);
  if (connection.has_more()) hot_.push_back(id);
}

void OutputHub::Worker::flush_relays() {
  std::vector<std::pair<std::uint64_t, base::Status>> broken;
  for (auto& [id, relay] : relays_) {
    const base::Status status = relay.connection->write_pending();
    if (!status.ok()) {
      broken.emplace_back(id, status);
      continue;
    }
    const std::uint32_t wanted =
        EPOLLIN | (relay.connection->wants_write() ? static_cast<std::uint32_t>(EPOLLOUT) : 0U);
    if (wanted == relay.polled) continue;
    relay.polled = wanted;
    epoll_event event{};
    event.events = wanted;
    event.data.u64 = id;
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, relay.connection->fd(), &event);
  }
  for (const auto& [id, status] : broken) close_relay(id, status);
}

void OutputHub::Worker::close_relay(std::uint64_t id, const base::Status& why) {
  const auto found = relays_.find(id);
  if (found == relays_.end()) return;
  for (const auto& [number, stream] : std::unordered_map(found->second.streams)) close(stream, why);
  relays_.erase(id);
}

void OutputHub::Worker::serve_connection(std::uint64_t id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  HubConnection* const connection = found->second.get();
  base::Status status = connection->serve(
      &scratch_, [this, id, connection](const proto::OutputFrame& frame) { return on_frame(id, connection, frame); });
  if (status.ok()) status = acknowledge(connection);
  if (!status.ok()) return close(id, status);
  if (connection->has_more()) hot_.push_back(id);
  if (connection->relay == 0) watch(id, connection);
}

void OutputHub::Worker::watch(std::uint64_t id, HubConnection* connection) {
  const std::uint32_t wanted = EPOLLIN | (connection->wants_write() ? static_cast<std::uint32_t>(EPOLLOUT) : 0U);
  if (wanted == connection->polled_events) return;
  connection->polled_events = wanted;
  epoll_event event{};
  event.events = wanted;
  event.data.u64 = id;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection->fd(), &event);
}

// Sends at most one Ack a turn, and none while an earlier one is not written.
base::Status OutputHub::Worker::acknowledge(HubConnection* connection) {
  const HubFlows::Flow* const flow = flows_.find(connection->flow);
  if (flow == nullptr || connection->has_unsent()) return base::ok_status();
  if (flow->last_delivered == connection->acknowledged) return base::ok_status();
  return connection->send(OutputKind::kAck, flow->last_delivered);
}

void OutputHub::Worker::close(std::uint64_t id, const base::Status& why) {
  if (fresh_.erase(id) > 0) return report_stranger(why);
  if (relays_.contains(id)) return close_relay(id, why);
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  HubFlows::Flow* const flow = flows_.find(found->second->flow);
  if (const auto relay = relays_.find(found->second->relay); relay != relays_.end()) {
    relay->second.streams.erase(found->second->relay_stream);
    if (found->second->flow >= 0 && --relay->second.accepted == 0) relay->second.lonely_since = idle_time_;
  }
  connections_.erase(found);
  if (flow == nullptr) {
    report_stranger(why);
    return;
  }
  if (flow->connection == id) flow->connection = 0;
  if (flow->events->on_connection) flow->events->on_connection(flow->agent, why);
}

void OutputHub::Worker::report_stranger(const base::Status& status) const {
  if (config_.on_stranger) config_.on_stranger(status);
}

base::Status OutputHub::Worker::on_frame(std::uint64_t id, HubConnection* connection, const proto::OutputFrame& frame) {
  if (connection->flow < 0) return on_hello(id, connection, frame);
  HubFlows::Flow* const flow = flows_.find(connection->flow);
  if (flow == nullptr) return {Code::kCancelled, "the launcher no longer expects this agent"};
  if (!flows_.is_expected(*flow, frame)) handle_commands();  // a waiting command may add the rank
  return flows_.handle(flow, frame);
}

base::Status OutputHub::Worker::on_hello(std::uint64_t id, HubConnection* connection, const proto::OutputFrame& frame) {
  if (frame.header.kind != OutputKind::kHello) return {Code::kUnauthenticated, "the first frame was not Hello"};
  const std::string identity = connection->peer_identity();
  int number = flows_.of_identity(identity);
  if (number == HubFlows::kNone) {
    handle_commands();  // a waiting command may add the agent
    number = flows_.of_identity(identity);
  }
  HubFlows::Flow* const flow = flows_.find(number);
  if (flow == nullptr || flow->agent != static_cast<int>(frame.header.rank)) {
    return base::unauthenticated("Hello of agent {} with the key of '{}' is refused", frame.header.rank, identity);
  }
  const std::uint64_t older = std::exchange(flow->connection, id);
  close(older, {Code::kAborted, "replaced by a newer connection"});
  connection->flow = number;
  if (const auto relay = relays_.find(connection->relay); relay != relays_.end()) {
    ++relay->second.accepted;
    relay->second.connection->proven(connection->relay_stream);
  }
  if (flow->events->on_connection) flow->events->on_connection(flow->agent, base::ok_status());
  return connection->send(OutputKind::kResume, flow->last_delivered);
}

base::Result<std::unique_ptr<OutputHub>> OutputHub::start(OutputHubConfig config, base::UniqueFd listening) {
  auto worker = std::make_unique<Worker>(std::move(config), std::move(listening));
  MUSTER_RETURN_IF_ERROR(worker->start());
  return std::unique_ptr<OutputHub>(new OutputHub(std::move(worker)));
}

OutputHub::OutputHub(std::unique_ptr<Worker> worker) : worker_(std::move(worker)) {}
OutputHub::~OutputHub() = default;

void OutputHub::add_job(const std::string& job, OutputSink* sink, OutputHubEvents events) {
  worker_->post(AddJob{job, sink, std::move(events)});
}

void OutputHub::remove_job(const std::string& job) {
  std::promise<void> done;
  worker_->post(RemoveJob{job, &done});
  done.get_future().wait();
}

base::Status OutputHub::expect_agent(const std::string& job, ExpectedAgent expected) {
  // Add the key at once, because the agent's handshake may begin before the hub's thread handles the command.
  MUSTER_RETURN_IF_ERROR(
      worker_->keys().add({proto::output_identity(job, expected.agent), std::exchange(expected.secret, {})}));
  worker_->post(ExpectAgent{job, std::move(expected)});
  return base::ok_status();
}

void OutputHub::expect_ranks(const std::string& job, int agent, std::vector<int> ranks) {
  worker_->post(ExpectRanks{job, agent, std::move(ranks)});
}

void OutputHub::forget_agent(const std::string& job, int agent) {
  // Remove the key at once too, because the agent may be expected again soon.
  worker_->keys().remove(proto::output_identity(job, agent));
  worker_->post(ForgetAgent{job, agent});
}

void OutputHub::agent_ended(const std::string& job, int agent) {
  worker_->post(AgentEnded{job, agent});
}

void OutputHub::add_connection(base::UniqueFd fd) {
  worker_->post(AddConnection{std::move(fd)});
}

void OutputHub::stop() {
  worker_->stop();
}

}  // namespace muster::launcherd::output
