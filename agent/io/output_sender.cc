#include "agent/io/output_sender.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "agent/io/frame_ring.h"
#include "agent/io/launcher_link.h"
#include "agent/io/rank_pipe.h"
#include "base/thread.h"

namespace muster::agent {
namespace {

using base::Code;
using base::Duration;
using base::MonotonicTime;
using proto::OutputStream;

constexpr std::size_t kSendSoon = 64 * 1024;    // while it is still in the cache
constexpr std::size_t kSmallRound = 16 * 1024;  // less than this: let a little more arrive before the next read
constexpr auto kGather = std::chrono::milliseconds(2);
constexpr std::size_t kTailPasses = 16;

MonotonicTime now() {
  return std::chrono::steady_clock::now();
}

struct Rank {
  Rank(int number, base::UniqueFd out_fd, base::UniqueFd err_fd, RankPipe::Cut cut)
      : rank(number),
        out(number, OutputStream::kStdout, std::move(out_fd), cut),
        err(number, OutputStream::kStderr, std::move(err_fd)) {}

  const int rank;
  RankPipe out;
  RankPipe err;
  std::optional<MonotonicTime> exited;
  bool is_draining = false;  // only what is in the pipes is read any more
};

struct AddRank {
  std::unique_ptr<Rank> rank;
};
struct RankExited {
  int rank;
};
struct Finish {
  MonotonicTime deadline;
  std::function<void(base::Status)> done;
};
struct AttemptEnded {
  base::Result<LauncherLink> link;
};
using Command = std::variant<AddRank, RankExited, Finish, AttemptEnded>;

// Few ranks get deep stdout pipes, many ranks must not use up their user's pipe pages (then new pipes shrink to 8 KiB).
// stderr keeps its 64 KiB: as much as is read for the tail of a dead rank.
void size_pipe(int fd, std::size_t ranks) {
  const int bytes = ranks <= 8 ? 1 << 20 : ranks <= 32 ? 256 << 10 : 0;
  // A refusal (limit reached, no pipe) leaves the size as it is, which is as well.
  if (bytes != 0) (void)fcntl(fd, F_SETPIPE_SZ, bytes);
}

// Without addresses for the file there is the memory: output is kept, only less of it.
std::unique_ptr<RingMemory> memory_of(const OutputSenderConfig& config) {
  const std::size_t bytes = std::max(config.ring_bytes, 5 * proto::kMaxOutputPayload / 2);
  if (config.spool_bytes > 0) {
    auto spool = make_spool_memory(bytes, config.spool_bytes, config.spool_directory);
    if (spool.ok()) return std::move(*spool);
  }
  return make_heap_memory(bytes);
}

}  // namespace

class OutputSender::Worker {
 public:
  Worker(OutputSenderConfig config, OutputSenderEvents events);
  ~Worker() { stop(); }

  base::Status begin();
  void post(Command command);
  void stop();

 private:
  static void refuse(Command* command);
  void run();
  void take_commands();
  void on(AddRank command);
  void on(RankExited command);
  void on(Finish command);
  void on(AttemptEnded command);
  int poll_timeout();
  void wait_for_events();
  void read_pipes();
  void pump();
  void read_answers();
  void lose_link(const base::Status& why);
  void schedule_attempt();
  void run_timers();
  void settle_ranks();
  void settle_pipe(const Rank& rank, RankPipe* pipe);
  bool settle_rank(Rank* rank);
  bool is_silent() const { return config_.only_if_any && ring_.bytes_committed() == 0; }
  void tell_any(bool was_any);
  bool frame_end(const RankOutputEnd& end);
  void settle_finish();
  void end_finish(base::Status status);
  void wake_at(MonotonicTime time) { next_timer_ = std::min(next_timer_, time); }

  const OutputSenderConfig config_;
  const OutputSenderEvents events_;
  FrameRing ring_;
  CarryBudget carry_;
  std::map<int, std::unique_ptr<Rank>> ranks_;
  std::vector<RankOutputEnd> silent_;  // have ended, and nothing of it is framed as long as nobody has written anything
  bool is_any_told_ = false;

  base::UniqueFd wake_;
  base::UniqueFd pipes_;  // epoll over all rank pipes; itself polled only while there is room
  bool are_pipes_ready_ = false;
  bool is_link_ready_ = false;
  bool is_ring_full_ = false;
  MonotonicTime gather_until_{};
  MonotonicTime next_timer_{};

  std::optional<LauncherLink> link_;
  bool wants_write_ = false;
  bool is_attempting_ = false;
  bool may_attempt_ = true;
  Duration backoff_;
  MonotonicTime next_attempt_{};

  std::optional<Finish> finish_;
  bool is_finish_framed_ = false;
  bool is_finished_ = false;

  std::mutex mutex_;  // guards the two below
  std::vector<Command> commands_;
  bool is_stopping_ = false;

  Connector connector_;
  std::thread thread_;
};

OutputSender::Worker::Worker(OutputSenderConfig config, OutputSenderEvents events)
    : config_(std::move(config)),
      events_(std::move(events)),
      ring_(memory_of(config_)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      pipes_(epoll_create1(EPOLL_CLOEXEC)),
      backoff_(config_.retry_min),
      connector_(&config_, [this](base::Result<LauncherLink> link) { post(AttemptEnded{std::move(link)}); }) {}

base::Status OutputSender::Worker::begin() {
  if (!wake_.valid() || !pipes_.valid() || !connector_.valid()) {
    return base::errno_error(errno, "get a descriptor for the output of ranks");
  }
  MUSTER_ASSIGN_OR_RETURN(thread_, base::start_thread([this] { run(); }));
  return base::ok_status();
}

void OutputSender::Worker::post(Command command) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_stopping_) {
      commands_.push_back(std::move(command));
      eventfd_write(wake_.get(), 1);
      return;
    }
  }
  refuse(&command);
}

// Stopped: whoever waits for an answer gets one.
void OutputSender::Worker::refuse(Command* command) {
  auto* finish = std::get_if<Finish>(command);
  if (finish != nullptr && finish->done) finish->done({Code::kCancelled, "output: already stopped"});
}

void OutputSender::Worker::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    eventfd_write(wake_.get(), 1);
  }
  connector_.cancel();
  if (thread_.joinable()) thread_.join();
}

void OutputSender::Worker::run() {
  sigset_t all;  // signals of the process are somebody else's; SIGPIPE of a cut connection is an error of write
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (is_stopping_) break;
    }
    take_commands();
    next_timer_ = MonotonicTime::max();
    run_timers();
    pump();
    wait_for_events();
    if (std::exchange(is_link_ready_, false)) read_answers();
    if (are_pipes_ready_) read_pipes();
  }
  end_finish(base::error(Code::kCancelled, "output: stopped with {} frames not taken by the launcher", ring_.frames()));
  // Nothing is added any more: post() has seen is_stopping_.
  for (Command& command : commands_) refuse(&command);
}

void OutputSender::Worker::take_commands() {
  std::vector<Command> commands;
  {
    const std::lock_guard lock(mutex_);
    commands.swap(commands_);
  }
  for (Command& command : commands) {
    std::visit([this](auto& one) { on(std::move(one)); }, command);
  }
}

void OutputSender::Worker::on(AddRank command) {
  Rank& rank = *command.rank;
  MUSTER_CHECK(ranks_.count(rank.rank) == 0);
  for (RankPipe* pipe : {&rank.out, &rank.err}) {
    if (!pipe->is_open()) continue;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = pipe;
    MUSTER_CHECK(base::set_nonblocking(pipe->fd(), true).ok());
    MUSTER_CHECK(epoll_ctl(pipes_.get(), EPOLL_CTL_ADD, pipe->fd(), &event) == 0);
  }
  if (rank.out.is_open()) size_pipe(rank.out.fd(), ranks_.size() + 1);
  ranks_.emplace(rank.rank, std::move(command.rank));
}

void OutputSender::Worker::on(RankExited command) {
  const auto found = ranks_.find(command.rank);
  if (found == ranks_.end() || found->second->exited) return;
  Rank& rank = *found->second;
  rank.exited = now();
  // The dead process's last words are in the pipe by now: take them, so that the report need not wait.
  RankPipe::Step step = RankPipe::Step::kMoved;
  for (std::size_t i = 0; i < kTailPasses && step == RankPipe::Step::kMoved; ++i) {
    step = rank.err.read_step(&ring_, &carry_, *rank.exited);
  }
  if (step == RankPipe::Step::kRingFull) rank.err.read_tail(&carry_);
  if (events_.on_stderr_tail) events_.on_stderr_tail(rank.rank, rank.err.tail());
}

void OutputSender::Worker::on(Finish command) {
  end_finish({Code::kAborted, "output: another finish() came"});
  finish_ = std::move(command);
}

void OutputSender::Worker::on(AttemptEnded command) {
  is_attempting_ = false;
  base::Status status = command.link.ok() ? ring_.resume_after(command.link->last_taken) : command.link.status();
  if (status.ok()) {
    link_ = std::move(*command.link);
    wants_write_ = false;
    is_ring_full_ = false;
    backoff_ = config_.retry_min;
    next_attempt_ = now() + backoff_;
    is_link_ready_ = true;  // answers may lie inside the TLS buffers
  } else {
    if (status.code() == Code::kFailedPrecondition) may_attempt_ = false;
    schedule_attempt();
  }
  if (events_.on_connection) events_.on_connection(std::move(status));
}

void OutputSender::Worker::schedule_attempt() {
  next_attempt_ = now() + backoff_;
  backoff_ = std::min(backoff_ * 2, config_.retry_max);
  wake_at(next_attempt_);
}

void OutputSender::Worker::lose_link(const base::Status& why) {
  link_.reset();
  is_link_ready_ = false;
  schedule_attempt();
  if (events_.on_connection) events_.on_connection(why);
}

int OutputSender::Worker::poll_timeout() {
  if (next_timer_ == MonotonicTime::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_timer_ - now()).count();
  return static_cast<int>(std::clamp<long>(left, 0, 60'000));
}

void OutputSender::Worker::wait_for_events() {
  const bool is_gathering = now() < gather_until_;
  if (is_gathering) wake_at(gather_until_);
  const bool reads_pipes = !is_ring_full_ && !is_gathering;
  const bool has_link = link_.has_value();
  const short link_events = static_cast<short>(POLLIN | (wants_write_ ? POLLOUT : 0));
  std::array<pollfd, 3> polled{pollfd{wake_.get(), POLLIN, 0},
                               pollfd{has_link ? link_->stream.fd() : -1, link_events, 0},
                               pollfd{reads_pipes ? pipes_.get() : -1, POLLIN, 0}};
  const bool was_link_ready = is_link_ready_;
  (void)poll(polled.data(), polled.size(), was_link_ready ? 0 : poll_timeout());  // EINTR: nothing was ready
  if ((polled[0].revents & POLLIN) != 0) {
    eventfd_t count = 0;
    eventfd_read(wake_.get(), &count);
  }
  is_link_ready_ = has_link && (was_link_ready || polled[1].revents != 0);
  are_pipes_ready_ = (polled[2].revents & POLLIN) != 0;
}

void OutputSender::Worker::read_pipes() {
  std::array<epoll_event, 64> ready;
  const int count = epoll_wait(pipes_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  const MonotonicTime time = now();
  const std::uint64_t before = ring_.bytes_committed() + carry_.used;
  for (int i = 0; i < count && !is_ring_full_; ++i) {
    auto* pipe = static_cast<RankPipe*>(ready[static_cast<std::size_t>(i)].data.ptr);
    is_ring_full_ = pipe->read_step(&ring_, &carry_, time) == RankPipe::Step::kRingFull;
    if (ring_.unsent().size() >= kSendSoon) pump();
  }
  if (ring_.bytes_committed() + carry_.used - before < kSmallRound) gather_until_ = time + kGather;
}

void OutputSender::Worker::pump() {
  while (link_) {
    const std::string_view run = ring_.unsent();
    if (run.empty()) break;
    const base::Result<base::TlsTransfer> moved = link_->stream.write(run.data(), run.size());
    if (!moved.ok()) return lose_link(moved.status());
    wants_write_ = moved->progress == base::TlsProgress::kWantWrite;
    if (moved->bytes == 0) break;
    ring_.mark_sent(moved->bytes);
  }
}

void OutputSender::Worker::read_answers() {
  std::array<char, 64 * proto::kOutputHeaderSize> buffer;
  while (link_) {
    const base::Result<base::TlsTransfer> moved =
        link_->stream.read(buffer.data() + link_->partial.size(), buffer.size() - link_->partial.size());
    if (!moved.ok()) return lose_link(moved.status());
    if (moved->progress == base::TlsProgress::kEof) {
      return lose_link({Code::kUnavailable, "output connection: the launcher closed it"});
    }
    if (moved->bytes == 0) return;
    std::copy(link_->partial.begin(), link_->partial.end(), buffer.begin());
    std::string_view rest(buffer.data(), link_->partial.size() + moved->bytes);
    for (;;) {
      const base::Result<proto::OutputParse> parse = proto::parse_output_frame(rest);
      if (!parse.ok()) return lose_link(parse.status());
      if (parse->state == proto::OutputParse::State::kNeedMore) break;
      if (parse->frame.header.kind != proto::OutputKind::kAck) {
        return lose_link({Code::kInvalidArgument, "output connection: the launcher sent something other than Ack"});
      }
      const base::Status status = ring_.acknowledge(parse->frame.header.sequence);
      if (!status.ok()) return lose_link(status);
      is_ring_full_ = false;
      rest.remove_prefix(parse->size);
    }
    link_->partial.assign(rest);
  }
}

void OutputSender::Worker::run_timers() {
  if (!is_silent()) tell_any(true);
  settle_ranks();
  settle_finish();
  if (link_ || is_attempting_ || !may_attempt_ || is_finished_ || is_silent()) return;
  if (now() < next_attempt_) return wake_at(next_attempt_);
  is_attempting_ = true;
  connector_.attempt();
}

void OutputSender::Worker::tell_any(bool was_any) {
  if (!config_.only_if_any || std::exchange(is_any_told_, true)) return;
  if (events_.on_any) events_.on_any(was_any);
}

void OutputSender::Worker::settle_ranks() {
  while (!silent_.empty() && !is_silent() && frame_end(silent_.back())) silent_.pop_back();
  for (auto it = ranks_.begin(); it != ranks_.end();) {
    it = settle_rank(it->second.get()) ? ranks_.erase(it) : std::next(it);
  }
}

// Sends a line that waits unfinished for too long, and reads what a dead rank left.
void OutputSender::Worker::settle_pipe(const Rank& rank, RankPipe* pipe) {
  const MonotonicTime time = now();
  if (rank.is_draining && pipe->is_open() && !is_ring_full_) {
    is_ring_full_ = pipe->read_step(&ring_, &carry_, time) == RankPipe::Step::kRingFull;
    if (pipe->is_open()) wake_at(time);
  }
  if (!pipe->has_carry() || is_ring_full_) return;
  const MonotonicTime due = pipe->is_open() ? pipe->last_data() + config_.partial_line_after : time;
  if (time < due) return wake_at(due);
  if (pipe->is_open() && pipe->has_pending()) return wake_at(time + kGather);  // about to be read
  is_ring_full_ = !pipe->flush_carry(&ring_, &carry_);
}

// True: all of the rank is framed, it can be forgotten.
bool OutputSender::Worker::settle_rank(Rank* rank) {
  if (rank->exited && !rank->is_draining) {
    const MonotonicTime due = *rank->exited + config_.drain_after_exit;
    if (now() >= due) {
      rank->is_draining = true;
      rank->out.stop_after_pending();
      rank->err.stop_after_pending();
    } else {
      wake_at(due);
    }
  }
  settle_pipe(*rank, &rank->out);
  settle_pipe(*rank, &rank->err);
  if (!rank->exited || rank->out.is_open() || rank->err.is_open() || rank->out.has_carry() || rank->err.has_carry()) {
    return false;
  }
  RankOutputEnd end{rank->rank, rank->out.bytes(), rank->err.bytes(), rank->err.tail()};
  if (is_silent()) {
    silent_.push_back(end);
  } else if (!frame_end(end)) {
    return false;
  }
  if (events_.on_ended) events_.on_ended(std::move(end));
  return true;
}

// False: the ring is full.
bool OutputSender::Worker::frame_end(const RankOutputEnd& end) {
  const auto payload = proto::encode_end_counts({end.stdout_bytes, end.stderr_bytes});
  char* const room = ring_.reserve(payload.size());
  if (room == nullptr) {
    is_ring_full_ = true;
    return false;
  }
  std::copy(payload.begin(), payload.end(), room);
  ring_.commit({.kind = proto::OutputKind::kEnd,
                .rank = static_cast<std::uint32_t>(end.rank),
                .length = static_cast<std::uint32_t>(payload.size())});
  return true;
}

void OutputSender::Worker::settle_finish() {
  if (!finish_) return;
  if (ranks_.empty() && is_silent()) {
    is_finished_ = true;
    tell_any(false);
    return end_finish(base::ok_status());
  }
  if (ranks_.empty() && silent_.empty() && !is_finish_framed_ && ring_.reserve(0) != nullptr) {
    ring_.commit({.kind = proto::OutputKind::kFinish});
    is_finish_framed_ = true;
  }
  if (is_finish_framed_ && ring_.is_empty()) {
    is_finished_ = true;
    if (link_) link_->stream.close_notify();
    link_.reset();
    return end_finish(base::ok_status());
  }
  if (now() >= finish_->deadline) {
    return end_finish(base::error(Code::kDeadlineExceeded,
                                  "output: {} ranks and {} frames are left that the launcher "
                                  "did not take in time",
                                  ranks_.size(), ring_.frames()));
  }
  wake_at(finish_->deadline);
}

void OutputSender::Worker::end_finish(base::Status status) {
  if (!finish_) return;
  const std::function<void(base::Status)> done = std::move(finish_->done);
  finish_.reset();
  if (done) done(std::move(status));
}

OutputSender::OutputSender(OutputSenderConfig config, OutputSenderEvents events)
    : worker_(std::make_unique<Worker>(std::move(config), std::move(events))) {
  MUSTER_CHECK(worker_->begin().ok());
}

OutputSender::OutputSender(std::unique_ptr<Worker> worker) : worker_(std::move(worker)) {}

base::Result<std::unique_ptr<OutputSender>> OutputSender::start(OutputSenderConfig config, OutputSenderEvents events) {
  auto worker = std::make_unique<Worker>(std::move(config), std::move(events));
  MUSTER_RETURN_IF_ERROR(worker->begin());
  return std::unique_ptr<OutputSender>(new OutputSender(std::move(worker)));
}

OutputSender::~OutputSender() = default;

void OutputSender::add_rank(int rank, base::UniqueFd stdout_fd, base::UniqueFd stderr_fd, StreamKind kind) {
  const auto cut = kind == StreamKind::kTerminal ? RankPipe::Cut::kAsTheyCome : RankPipe::Cut::kLines;
  worker_->post(AddRank{std::make_unique<Rank>(rank, std::move(stdout_fd), std::move(stderr_fd), cut)});
}

void OutputSender::rank_exited(int rank) {
  worker_->post(RankExited{rank});
}

void OutputSender::finish(base::MonotonicTime deadline, std::function<void(base::Status)> done) {
  worker_->post(Finish{deadline, std::move(done)});
}

base::Status OutputSender::flush_and_close_blocking(base::MonotonicTime deadline) {
  std::promise<base::Status> promise;
  finish(deadline, [&promise](base::Status status) { promise.set_value(std::move(status)); });
  return promise.get_future().get();
}

void OutputSender::stop() {
  worker_->stop();
}

}  // namespace muster::agent
