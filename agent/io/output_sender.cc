// Worker does all the work on its own thread; OutputSender's methods only post commands to it.
// Read Worker::run() first, then wait_for_events(), pump() and read_answers(), then run_timers() and settle_finish().

#include "agent/io/output_sender.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "agent/io/frame_ring.h"
#include "agent/io/launcher_link.h"
#include "agent/io/rank_outputs.h"
#include "base/clock.h"
#include "base/thread.h"

namespace muster::agent::inline io {
namespace {

using base::Code;
using base::Duration;
using base::MonotonicTime;

struct AddRank {
  int rank;
  base::UniqueFd stdout_fd;
  base::UniqueFd stderr_fd;
  RankPipe::Cut cut;
};
struct RankExited {
  int rank;
};
struct AskLastOutputs {
  std::function<void(std::map<int, LastOutput>)> done;
};
struct Finish {
  MonotonicTime deadline;
  std::function<void(base::Status)> done;
};
struct AttemptEnded {
  base::Result<LauncherLink> link;
};
using Command = std::variant<AddRank, RankExited, AskLastOutputs, Finish, AttemptEnded>;

// If there is not enough address space for the file, uses memory only. Output is still kept, but less of it.
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
  void on(const AskLastOutputs& command);
  void on(Finish command);
  void on(AttemptEnded command);
  int poll_timeout();
  void wait_for_events();
  void pump();
  void read_answers();
  void lose_link(const base::Status& why);
  void schedule_attempt();
  void run_timers();
  void report_any(bool was_any);
  void settle_finish();
  void end_finish(base::Status status);
  void wake_at(MonotonicTime time) { next_timer_ = std::min(next_timer_, time); }

  const OutputSenderConfig config_;
  const OutputSenderEvents events_;
  FrameRing ring_;
  RankOutputs ranks_;
  bool is_any_reported_ = false;

  base::UniqueFd wake_;
  bool are_pipes_ready_ = false;
  bool is_link_ready_ = false;
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

  std::mutex mutex_;  // guards the two members below
  std::vector<Command> commands_;
  bool is_stopping_ = false;

  Connector connector_;
  std::thread thread_;
};

OutputSender::Worker::Worker(OutputSenderConfig config, OutputSenderEvents events)
    : config_(std::move(config)),
      events_(std::move(events)),
      ring_(memory_of(config_)),
      ranks_(&config_, &events_, &ring_),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      backoff_(config_.retry_min),
      connector_(&config_, [this](base::Result<LauncherLink> link) { post(AttemptEnded{std::move(link)}); }) {}

base::Status OutputSender::Worker::begin() {
  if (!wake_.valid() || !ranks_.valid() || !connector_.valid()) {
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

// Answers a command that came after the sender has stopped, because its caller may wait for an answer.
void OutputSender::Worker::refuse(Command* command) {
  if (const auto* asked = std::get_if<AskLastOutputs>(command)) asked->done({});
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
  // Block all signals, because other threads handle those of the process. A cut connection then shows as an error of
  // write instead of SIGPIPE.
  sigset_t all;
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
    if (are_pipes_ready_) ranks_.read_ready([this] { pump(); });
  }
  end_finish(base::cancelled("output: stopped before the launcher received {} frames", ring_.frames()));
  // No more commands are added, because post() sees is_stopping_.
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
  ranks_.add(command.rank, std::move(command.stdout_fd), std::move(command.stderr_fd), command.cut);
}

void OutputSender::Worker::on(RankExited command) {
  ranks_.exited(command.rank);
}

void OutputSender::Worker::on(const AskLastOutputs& command) {
  command.done(ranks_.last_outputs());
}

void OutputSender::Worker::on(Finish command) {
  end_finish({Code::kAborted, "output: finish() was called again"});
  finish_ = std::move(command);
}

void OutputSender::Worker::on(AttemptEnded command) {
  is_attempting_ = false;
  base::Status status = command.link.ok() ? ring_.resume_after(command.link->last_delivered) : command.link.status();
  if (status.ok()) {
    link_ = std::move(*command.link);
    wants_write_ = false;
    ranks_.ring_has_room();
    backoff_ = config_.retry_min;
    next_attempt_ = base::monotonic_now() + backoff_;
    is_link_ready_ = true;  // answers may already lie in the TLS buffers
  } else {
    if (status.code() == Code::kFailedPrecondition) may_attempt_ = false;
    schedule_attempt();
  }
  if (events_.on_connection) events_.on_connection(std::move(status));
}

void OutputSender::Worker::schedule_attempt() {
  next_attempt_ = base::monotonic_now() + backoff_;
  backoff_ = std::min(backoff_ * 2, config_.retry_max);
  wake_at(next_attempt_);
}

void OutputSender::Worker::lose_link(const base::Status& why) {
  link_.reset();
  is_link_ready_ = false;
  // Most likely the job is over at the launcher and will soon be over here, so do not hurry.
  if (is_finished_) backoff_ = config_.retry_max;
  schedule_attempt();
  if (events_.on_connection) events_.on_connection(why);
}

int OutputSender::Worker::poll_timeout() {
  if (next_timer_ == MonotonicTime::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_timer_ - base::monotonic_now()).count();
  return static_cast<int>(std::clamp<long>(left, 0, 60'000));
}

void OutputSender::Worker::wait_for_events() {
  const bool is_gathering = base::monotonic_now() < ranks_.gathers_until();
  if (is_gathering) wake_at(ranks_.gathers_until());
  const bool reads_pipes = !ranks_.is_ring_full() && !is_gathering;
  const bool has_link = link_.has_value();
  const short link_events = static_cast<short>(POLLIN | (wants_write_ ? POLLOUT : 0));
  std::array<pollfd, 3> polled{pollfd{wake_.get(), POLLIN, 0},
                               pollfd{has_link ? link_->stream.fd() : -1, link_events, 0},
                               pollfd{reads_pipes ? ranks_.fd() : -1, POLLIN, 0}};
  const bool was_link_ready = is_link_ready_;
  // EINTR means that nothing was ready.
  (void)poll(polled.data(), polled.size(), was_link_ready ? 0 : poll_timeout());
  if ((polled[0].revents & POLLIN) != 0) {
    eventfd_t count = 0;
    eventfd_read(wake_.get(), &count);
  }
  is_link_ready_ = has_link && (was_link_ready || polled[1].revents != 0);
  are_pipes_ready_ = (polled[2].revents & POLLIN) != 0;
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
      ranks_.ring_has_room();
      rest.remove_prefix(parse->size);
    }
    link_->partial.assign(rest);
  }
}

void OutputSender::Worker::run_timers() {
  if (!ranks_.is_silent()) report_any(true);
  wake_at(ranks_.settle());
  settle_finish();
  const bool is_over = is_finished_ && !config_.outlives_launcher;
  if (link_ || is_attempting_ || !may_attempt_ || is_over || ranks_.is_silent()) return;
  if (base::monotonic_now() < next_attempt_) return wake_at(next_attempt_);
  is_attempting_ = true;
  connector_.attempt();
}

void OutputSender::Worker::report_any(bool was_any) {
  if (!config_.only_if_any || std::exchange(is_any_reported_, true)) return;
  if (events_.on_any) events_.on_any(was_any);
}

void OutputSender::Worker::settle_finish() {
  if (!finish_) return;
  if (ranks_.have_ended() && ranks_.is_silent()) {
    is_finished_ = true;
    report_any(false);
    return end_finish(base::ok_status());
  }
  if (ranks_.have_ended() && ranks_.are_ends_framed() && !is_finish_framed_ && ring_.reserve(0) != nullptr) {
    ring_.commit({.kind = proto::OutputKind::kFinish});
    is_finish_framed_ = true;
  }
  if (is_finish_framed_ && ring_.is_empty()) {
    is_finished_ = true;
    if (link_ && !config_.outlives_launcher) {
      link_->stream.close_notify();
      link_.reset();
    }
    return end_finish(base::ok_status());
  }
  if (base::monotonic_now() >= finish_->deadline) {
    return end_finish(base::deadline_exceeded(
        "output: the launcher did not receive everything in time; {} ranks and {} frames are left", ranks_.count(),
        ring_.frames()));
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
  worker_->post(AddRank{rank, std::move(stdout_fd), std::move(stderr_fd), cut});
}

void OutputSender::rank_exited(int rank) {
  worker_->post(RankExited{rank});
}

void OutputSender::last_outputs(std::function<void(std::map<int, LastOutput>)> done) {
  worker_->post(AskLastOutputs{std::move(done)});
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

}  // namespace muster::agent::io
