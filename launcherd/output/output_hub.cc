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
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>

#include "base/thread.h"
#include "launcherd/output/hub_connection.h"
#include "proto/peer_names.h"

namespace muster::launcherd {
namespace {

using base::Code;
using base::MonotonicTime;
using proto::OutputKind;

constexpr std::uint64_t kWakeId = 0;
constexpr std::uint64_t kListenId = 1;
constexpr int kAcceptsPerTurn = 16;
constexpr auto kAcceptPause = std::chrono::milliseconds(100);  // out of descriptors: not in a tight loop

MonotonicTime now() {
  return std::chrono::steady_clock::now();
}

struct Agent {
  std::set<int> running;         // its ranks whose End has not come
  std::uint64_t last_taken = 0;  // sequence of the last frame in the sink
  std::uint64_t connection = 0;  // id; 0: none
  bool is_complete = false;
};

struct ExpectAgent {
  int agent;
  std::vector<int> ranks;
};
struct ForgetAgent {
  int agent;
};
struct AddConnection {
  base::UniqueFd fd;
};
using Command = std::variant<ExpectAgent, ForgetAgent, AddConnection>;

struct RankEnd {
  int rank;
  proto::EndCounts counts;
};

}  // namespace

class OutputHub::Worker {
 public:
  Worker(OutputHubConfig config, base::UniqueFd listening, OutputSink* sink, OutputHubEvents events);
  ~Worker() { stop(); }

  base::Status start();
  void post(Command command);
  void stop();

 private:
  void run();
  void take_commands();
  void on(ExpectAgent command);
  void on(ForgetAgent command);
  void on(AddConnection command);
  int timeout() const;
  void accept_connections();
  void add(base::UniqueFd fd);
  void serve(std::uint64_t id);
  base::Status on_frame(std::uint64_t id, HubConnection* connection, const proto::OutputFrame& frame);
  base::Status on_hello(std::uint64_t id, HubConnection* connection, const proto::OutputFrame& frame);
  base::Status on_numbered(Agent* agent, int index, const proto::OutputFrame& frame);
  base::Status acknowledge(HubConnection* connection);
  void watch(std::uint64_t id, HubConnection* connection);
  void close(std::uint64_t id, const base::Status& why);
  void drop_late();
  void settle();
  void report(const base::Status& status);
  void complete(int index, Agent* agent);

  const OutputHubConfig config_;
  OutputSink* const sink_;
  const OutputHubEvents events_;
  base::UniqueFd listening_;
  base::UniqueFd epoll_;
  base::UniqueFd wake_;
  ReadScratch scratch_;

  std::map<int, Agent> agents_;
  std::unordered_map<std::uint64_t, std::unique_ptr<HubConnection>> connections_;
  std::deque<std::uint64_t> pending_;  // before Hello, oldest first; may hold ids that are gone or accepted
  std::vector<std::uint64_t> hot_;     // have more to read although their socket may be quiet
  std::uint64_t next_id_ = kListenId + 1;
  MonotonicTime idle_time_{};  // runs only while the hub waits: a blocked console makes no connection late
  MonotonicTime accept_again_{};
  bool is_accept_paused_ = false;

  bool is_flush_due_ = false;
  std::vector<RankEnd> ended_;  // to be told after the next flush
  std::vector<int> completed_;

  std::mutex mutex_;  // guards the two below
  std::vector<Command> commands_;
  bool is_stopping_ = false;
  std::thread thread_;
};

OutputHub::Worker::Worker(OutputHubConfig config, base::UniqueFd listening, OutputSink* sink, OutputHubEvents events)
    : config_(std::move(config)), sink_(sink), events_(std::move(events)), listening_(std::move(listening)) {}

base::Status OutputHub::Worker::start() {
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
}

void OutputHub::Worker::run() {
  sigset_t all;  // signals of the process are somebody else's; SIGPIPE of a cut connection is an error of write
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::array<epoll_event, 64> ready;
  for (;;) {
    const MonotonicTime before = now();
    const int count = epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), timeout());
    idle_time_ += now() - before;
    {
      const std::lock_guard lock(mutex_);
      if (is_stopping_) return;
    }
    std::vector<std::uint64_t> hot = std::exchange(hot_, {});
    for (int i = 0; i < count; ++i) {
      const std::uint64_t id = ready[static_cast<std::size_t>(i)].data.u64;
      if (id == kWakeId) {
        take_commands();
      } else if (id == kListenId) {
        accept_connections();
      } else {
        serve(id);
        std::erase(hot, id);
      }
    }
    for (const std::uint64_t id : hot) serve(id);
    drop_late();
    if (hot_.empty() || !ended_.empty() || !completed_.empty()) settle();
  }
}

int OutputHub::Worker::timeout() const {
  if (!hot_.empty()) return 0;
  MonotonicTime next = is_accept_paused_ ? accept_again_ : MonotonicTime::max();
  for (const std::uint64_t id : pending_) {
    const auto found = connections_.find(id);
    if (found == connections_.end() || found->second->agent >= 0) continue;
    next = std::min(next, found->second->hello_deadline());
    break;  // oldest first
  }
  if (next == MonotonicTime::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - idle_time_).count();
  return static_cast<int>(std::clamp<long>(left, 0, 60'000));
}

void OutputHub::Worker::take_commands() {
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

void OutputHub::Worker::on(ExpectAgent command) {
  on(ForgetAgent{command.agent});
  Agent& agent = agents_[command.agent];
  agent.running.insert(command.ranks.begin(), command.ranks.end());
}

void OutputHub::Worker::on(ForgetAgent command) {
  const auto found = agents_.find(command.agent);
  if (found == agents_.end()) return;
  const std::uint64_t connection = found->second.connection;
  agents_.erase(found);
  close(connection, {Code::kCancelled, "the launcher no longer expects this agent"});
}

void OutputHub::Worker::on(AddConnection command) {
  add(std::move(command.fd));
}

void OutputHub::Worker::accept_connections() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    base::UniqueFd fd(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.valid()) {
      add(std::move(fd));
      continue;
    }
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
    // Out of descriptors or memory: what is connected goes on, and the listener is asked again a little later.
    if (events_.on_connection) events_.on_connection(-1, base::errno_error(errno, "output hub: accept"));
    is_accept_paused_ = true;
    accept_again_ = idle_time_ + kAcceptPause;
    epoll_event none{};
    none.data.u64 = kListenId;
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listening_.get(), &none);
    return;
  }
}

void OutputHub::Worker::add(base::UniqueFd fd) {
  base::tune_output_socket(fd.get());
  const std::uint64_t id = next_id_++;
  auto connection = std::make_unique<HubConnection>(config_.tls, std::move(fd), idle_time_ + config_.hello_timeout);
  epoll_event event{};
  event.events = connection->polled_events = EPOLLIN;
  event.data.u64 = id;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection->fd(), &event) != 0) return;  // not a socket: closed
  connections_.emplace(id, std::move(connection));
  pending_.push_back(id);
}

// Forgets accepted ones, and closes those that said no Hello in time or are too many.
void OutputHub::Worker::drop_late() {
  std::erase_if(pending_, [this](std::uint64_t id) {
    const auto found = connections_.find(id);
    return found == connections_.end() || found->second->agent >= 0;
  });
  while (!pending_.empty()) {
    const std::uint64_t oldest = pending_.front();
    const bool is_late = idle_time_ >= connections_.at(oldest)->hello_deadline();
    if (!is_late && pending_.size() <= config_.max_pending) break;
    pending_.pop_front();
    close(oldest,
          {Code::kDeadlineExceeded, is_late ? "said no Hello in time" : "too many connections without a Hello"});
  }
  if (is_accept_paused_ && idle_time_ >= accept_again_) {
    is_accept_paused_ = false;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kListenId;
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listening_.get(), &event);
  }
}

void OutputHub::Worker::serve(std::uint64_t id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  HubConnection* const connection = found->second.get();
  base::Status status = connection->serve(
      &scratch_, [this, id, connection](const proto::OutputFrame& frame) { return on_frame(id, connection, frame); });
  if (status.ok()) status = acknowledge(connection);
  if (!status.ok()) return close(id, status);
  if (connection->has_more()) hot_.push_back(id);
  watch(id, connection);
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

// One Ack a turn at most, and none while an earlier one is stuck.
base::Status OutputHub::Worker::acknowledge(HubConnection* connection) {
  const auto found = agents_.find(connection->agent);
  if (found == agents_.end() || connection->has_unsent()) return base::ok_status();
  if (found->second.last_taken == connection->acknowledged) return base::ok_status();
  return connection->send(OutputKind::kAck, found->second.last_taken);
}

void OutputHub::Worker::close(std::uint64_t id, const base::Status& why) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  const int index = found->second->agent;
  const auto agent = agents_.find(index);
  if (agent != agents_.end() && agent->second.connection == id) agent->second.connection = 0;
  connections_.erase(found);
  if (events_.on_connection) events_.on_connection(index, why);
}

base::Status OutputHub::Worker::on_frame(std::uint64_t id, HubConnection* connection, const proto::OutputFrame& frame) {
  if (connection->agent < 0) return on_hello(id, connection, frame);
  const auto found = agents_.find(connection->agent);
  if (found == agents_.end()) return {Code::kCancelled, "the launcher no longer expects this agent"};
  return on_numbered(&found->second, connection->agent, frame);
}

base::Status OutputHub::Worker::on_hello(std::uint64_t id, HubConnection* connection, const proto::OutputFrame& frame) {
  if (frame.header.kind != OutputKind::kHello) return {Code::kUnauthenticated, "the first frame was not Hello"};
  const int index = static_cast<int>(frame.header.rank);
  const auto found = agents_.find(index);
  const std::string identity = connection->peer_identity();
  if (found == agents_.end() || identity != proto::output_identity(config_.job, index)) {
    return base::error(Code::kUnauthenticated, "Hello of agent {} with the key of '{}' is refused", index, identity);
  }
  const std::uint64_t older = std::exchange(found->second.connection, id);
  close(older, {Code::kAborted, "replaced by a newer connection"});
  connection->agent = index;
  if (events_.on_connection) events_.on_connection(index, base::ok_status());
  return connection->send(OutputKind::kResume, found->second.last_taken);
}

base::Status OutputHub::Worker::on_numbered(Agent* agent, int index, const proto::OutputFrame& frame) {
  const proto::OutputHeader& header = frame.header;
  if (header.kind == OutputKind::kHello || header.kind == OutputKind::kResume || header.kind == OutputKind::kAck) {
    return base::error(Code::kInvalidArgument, "unexpected frame of kind {}", static_cast<int>(header.kind));
  }
  if (header.sequence <= agent->last_taken) return base::ok_status();  // sent again after a cut
  if (header.sequence != agent->last_taken + 1) {
    return base::error(Code::kDataLoss, "frame {} came after frame {}", header.sequence, agent->last_taken);
  }
  agent->last_taken = header.sequence;
  sink_->frame(index, header.sequence);
  if (header.kind == OutputKind::kFinish) {
    report(sink_->end_agent(index));
    is_flush_due_ = true;
    complete(index, agent);
    return base::ok_status();
  }
  const int rank = static_cast<int>(header.rank);
  if (agent->running.count(rank) == 0) {
    return base::error(Code::kPermissionDenied, "output of rank {}, which is not (any more) one of this agent", rank);
  }
  is_flush_due_ = true;
  if (header.kind == OutputKind::kData) {
    report(sink_->write(rank, header.stream, frame.payload, header.flags));
    return base::ok_status();
  }
  report(sink_->end_rank(rank));
  ended_.push_back({rank, proto::decode_end_counts(frame.payload)});
  agent->running.erase(rank);
  if (agent->running.empty()) complete(index, agent);
  return base::ok_status();
}

void OutputHub::Worker::complete(int index, Agent* agent) {
  if (std::exchange(agent->is_complete, true)) return;
  completed_.push_back(index);
}

void OutputHub::Worker::report(const base::Status& status) {
  if (!status.ok() && events_.on_error) events_.on_error(status);
}

void OutputHub::Worker::settle() {
  if (std::exchange(is_flush_due_, false)) report(sink_->flush());
  for (const RankEnd& end : std::exchange(ended_, {})) {
    if (events_.on_rank_ended) events_.on_rank_ended(end.rank, end.counts.stdout_bytes, end.counts.stderr_bytes);
  }
  for (const int agent : std::exchange(completed_, {})) {
    if (events_.on_agent_complete) events_.on_agent_complete(agent);
  }
}

base::Result<std::unique_ptr<OutputHub>> OutputHub::start(OutputHubConfig config, base::UniqueFd listening,
                                                          OutputSink* sink, OutputHubEvents events) {
  auto worker = std::make_unique<Worker>(std::move(config), std::move(listening), sink, std::move(events));
  MUSTER_RETURN_IF_ERROR(worker->start());
  return std::unique_ptr<OutputHub>(new OutputHub(std::move(worker)));
}

OutputHub::OutputHub(std::unique_ptr<Worker> worker) : worker_(std::move(worker)) {}
OutputHub::~OutputHub() = default;

void OutputHub::expect_agent(int agent, std::vector<int> ranks) {
  worker_->post(ExpectAgent{agent, std::move(ranks)});
}

void OutputHub::forget_agent(int agent) {
  worker_->post(ForgetAgent{agent});
}

void OutputHub::add_connection(base::UniqueFd fd) {
  worker_->post(AddConnection{std::move(fd)});
}

void OutputHub::stop() {
  worker_->stop();
}

}  // namespace muster::launcherd
