// ExecSession is the main thread's side. One more thread reads from the launcher, and RequestSender is a third.
// Read ExecSession::run() first, then the functions for input, signals and the end.

#include "cli/verbs/exec_session.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/loop.h"
#include "base/thread.h"
#include "base/unique_fd.h"
#include "cli/view/raw_terminal.h"
#include "cli/view/signals.h"
#include "launcherd/service/api_client.h"
#include "proto/input_window.h"

namespace muster::cli::inline verbs {
namespace {

constexpr std::size_t kMostComplaints = 4096;
constexpr int kMostInterrupts = 3;
constexpr std::size_t kTerminalPiece = 256;  // a terminal that is writable may have little room
// The kernel does not report that a terminal has come to the foreground, so it is polled.
constexpr std::chrono::milliseconds kForegroundPoll{500};

bool is_file(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

// Returns how many bytes a descriptor takes without blocking when poll() says that it is writable.
std::size_t piece_of(int fd) {
  if (is_file(fd)) return SIZE_MAX;
  return ::isatty(fd) != 0 ? kTerminalPiece : PIPE_BUF;
}

// Writes everything, also to a descriptor that another program has made non-blocking. CANCELLED: `stop` is readable.
base::Status write_fully(int fd, int stop, std::string_view bytes) {
  const std::size_t piece = piece_of(fd);
  while (!bytes.empty()) {
    std::array<pollfd, 2> wanted{pollfd{fd, POLLOUT, 0}, pollfd{stop, POLLIN, 0}};
    const bool is_ready = ::poll(wanted.data(), wanted.size(), -1) > 0;
    if (is_ready && wanted[1].revents != 0) return {base::Code::kCancelled, "interrupted"};
    if (!is_ready) continue;
    const ssize_t n = ::write(fd, bytes.data(), std::min(bytes.size(), piece));
    if (n >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EAGAIN && errno != EINTR) {
      return base::errno_error(errno, "write the output");
    }
  }
  return base::ok_status();
}

bool is_closed(int fd) {
  pollfd wanted{fd, POLLOUT, 0};
  return fd >= 0 && ::poll(&wanted, 1, 0) == 1 && (wanted.revents & POLLERR) != 0;
}

// Sends requests on a thread of its own, because a launcher that is stopped or busy takes none. What waits here is
// bounded by the window for input.
class RequestSender {
 public:
  explicit RequestSender(launcherd::ExecCall& call) : call_(call) {}
  // The call must be over, or it blocks.
  ~RequestSender() {
    close();
    if (thread_.joinable()) thread_.join();
  }
  RequestSender(const RequestSender&) = delete;
  RequestSender& operator=(const RequestSender&) = delete;

  base::Status start() {
    MUSTER_ASSIGN_OR_RETURN(thread_, base::start_thread([this] { run(); }));
    return base::ok_status();
  }
  void push(const v1::ExecRequest& request) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(request);
    changed_.notify_one();
  }

 private:
  void close() {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    changed_.notify_one();
  }
  std::optional<v1::ExecRequest> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_closed_ || !waiting_.empty(); });
    if (is_closed_) return std::nullopt;
    v1::ExecRequest request = std::move(waiting_.front());
    waiting_.pop_front();
    return request;
  }
  void run() {
    while (const std::optional<v1::ExecRequest> request = next()) {
      // A call that is over accepts nothing more. The reading thread reports its end.
      if (!call_.write(*request)) return;
    }
  }

  launcherd::ExecCall& call_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<v1::ExecRequest> waiting_;
  bool is_closed_ = false;
  std::thread thread_;
};

class ExecSession {
 public:
  ExecSession(const ExecStreams& streams, const ExecHooks& hooks)
      : streams_(streams), hooks_(hooks), raw_(streams.input), is_file_(is_file(streams.input)) {}

  ExecOutcome run(FoundJob job, v1::ExecRequest first);

 private:
  base::Status serve();
  void read_events();
  base::Status write_output(const v1::ExecEvent& event);
  void begun(const v1::ExecBegun& begun);
  void over(std::optional<v1::ExecEnd> end, const base::Status& status);

  void send(const v1::ExecRequest& request);
  void await_input();
  void read_input();
  void end_input();

  void on_signal(int signo);
  void send_window();
  void give_up(int signo);

  const ExecStreams streams_;
  const ExecHooks& hooks_;
  base::Loop loop_;
  ExecOutcome outcome_;
  std::unique_ptr<launcherd::ExecCall> call_;
  std::unique_ptr<RequestSender> sender_;
  base::FdPair stop_;  // the write end is closed to end the writing of output
  RawTerminal raw_;
  const bool is_file_;
  bool has_terminal_ = false;
  bool is_over_ = false;
  std::size_t room_ = proto::kInputWindow;  // bytes of input that may be sent
  bool has_input_ = false;                  // false once the input has ended
  base::Timer input_watch_;
  int interrupts_ = 0;
  int hangups_ = 0;
  base::Status output_failure_;  // of the reading thread, which has ended when it is read
  std::string complaints_;       // the same
};

ExecOutcome ExecSession::run(FoundJob job, v1::ExecRequest first) {
  auto signals = Signals::block({SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGWINCH});
  if (!signals.ok()) {
    outcome_.failure = signals.status();
    return std::move(outcome_);
  }
  ::signal(SIGPIPE, SIG_IGN);
  auto stop = base::make_pipe();
  if (!stop.ok()) {
    outcome_.failure = stop.status();
    return std::move(outcome_);
  }
  launcherd::ApiClient client(job.launcher);
  first.set_job(job.name_there());
  has_terminal_ = first.terminal();
  has_input_ = streams_.input >= 0;
  if (!has_input_) first.set_end_of_input(true);
  if (has_terminal_) {
    const TerminalSize size = terminal_size();
    first.mutable_window_size()->set_rows(size.rows);
    first.mutable_window_size()->set_columns(size.columns);
  }
  auto call = client.exec(first);
  if (!call.ok()) {
    outcome_.failure = call.status();
    return std::move(outcome_);
  }
  call_ = *std::move(call);
  stop_ = *std::move(stop);
  signals->watch(loop_, [this](int signo) { on_signal(signo); });
  if (const base::Status served = serve(); !served.ok()) {
    outcome_.failure = served;
    return std::move(outcome_);
  }
  if (!output_failure_.ok()) {
    outcome_.failure = output_failure_;
    outcome_.is_output_closed = is_closed(streams_.output) || is_closed(streams_.error_output);
  }
  outcome_.complaints = std::move(complaints_);
  return std::move(outcome_);
}

// Returns at the end of the call. An error means that a thread could not be started.
base::Status ExecSession::serve() {
  sender_ = std::make_unique<RequestSender>(*call_);
  auto reader = base::start_thread([this] { read_events(); });
  const base::Status started = reader.ok() ? sender_->start() : reader.status();
  if (started.ok()) {
    loop_.run();
  } else {
    call_->cancel();
  }
  if (reader.ok()) reader->join();
  raw_.leave();
  sender_.reset();
  call_.reset();
  return started;
}

// The reading thread.
void ExecSession::read_events() {
  v1::ExecEvent event;
  std::optional<v1::ExecEnd> end;
  while (call_->read(event)) {
    switch (event.event_case()) {
      case v1::ExecEvent::kBegun:
        loop_.post([this, begun = event.begun()] { this->begun(begun); });
        break;
      case v1::ExecEvent::kInputTaken:
        loop_.post([this, bytes = event.input_taken()] {
          room_ = std::min<std::size_t>(proto::kInputWindow, room_ + bytes);
          await_input();
        });
        break;
      case v1::ExecEvent::kEnded:
        end = event.ended();
        break;
      default:
        if (!output_failure_.ok()) break;
        output_failure_ = write_output(event);
        if (!output_failure_.ok()) call_->cancel();
    }
  }
  const base::Status status = call_->finish();
  loop_.post([this, end = std::move(end), status] { over(end, status); });
}

base::Status ExecSession::write_output(const v1::ExecEvent& event) {
  if (event.event_case() == v1::ExecEvent::kErrorOutput && streams_.error_output < 0) {
    complaints_ += event.error_output();
    if (complaints_.size() > kMostComplaints) complaints_.erase(0, complaints_.size() - kMostComplaints);
    return base::ok_status();
  }
  const bool is_error = event.event_case() == v1::ExecEvent::kErrorOutput;
  const std::string& bytes = is_error ? event.error_output() : event.output();
  if (!is_error && hooks_.on_output) return hooks_.on_output(bytes);
  return write_fully(is_error ? streams_.error_output : streams_.output, stop_.first.get(), bytes);
}

void ExecSession::begun(const v1::ExecBegun& begun) {
  outcome_.host = begun.host();
  if (has_terminal_ && has_input_) raw_.enter();
  await_input();
}

void ExecSession::over(std::optional<v1::ExecEnd> end, const base::Status& status) {
  is_over_ = true;
  input_watch_.cancel();
  raw_.leave();
  outcome_.end = std::move(end);
  if (!outcome_.end && outcome_.failure.ok()) outcome_.failure = status;
  if (!outcome_.end && outcome_.failure.ok()) {
    outcome_.failure = base::unavailable("the launcher did not say how the command ended");
  }
  loop_.stop();
}

void ExecSession::send(const v1::ExecRequest& request) {
  if (!is_over_) sender_->push(request);
}

void ExecSession::await_input() {
  if (!has_input_ || is_over_ || room_ == 0) return input_watch_.cancel();
  if (input_watch_.armed()) return;
  if (is_file_) {  // a file is always readable, and epoll refuses it
    input_watch_ = loop_.after(std::chrono::milliseconds(0), [this] {
      input_watch_.cancel();
      read_input();
    });
  } else if (::isatty(streams_.input) != 0 && !is_foreground(streams_.input)) {
    input_watch_ = loop_.after(kForegroundPoll, [this] {
      input_watch_.cancel();
      await_input();
    });
  } else {
    input_watch_ = loop_.on_readable(streams_.input, [this] { read_input(); });
  }
}

void ExecSession::read_input() {
  v1::ExecRequest request;
  std::string& bytes = *request.mutable_input();
  bytes.resize(std::min(room_, 2 * proto::kInputPiece));
  const ssize_t n = read_quietly(streams_.input, bytes.data(), bytes.size());
  if (n < 0 && (errno == EINTR || errno == EAGAIN || (errno == EIO && !is_foreground(streams_.input)))) {
    input_watch_.cancel();
    return await_input();
  }
  if (n <= 0) return end_input();
  bytes.resize(static_cast<std::size_t>(n));
  room_ -= bytes.size();
  send(request);
  if (hooks_.on_sent) hooks_.on_sent(bytes.size());
  await_input();
}

void ExecSession::end_input() {
  has_input_ = false;
  input_watch_.cancel();
  if (hooks_.on_input_end) {
    if (base::Status failed = hooks_.on_input_end(); !failed.ok()) {
      outcome_.failure = std::move(failed);
      return call_->cancel();
    }
  }
  v1::ExecRequest request;
  request.set_end_of_input(true);
  send(request);
}

void ExecSession::on_signal(int signo) {
  if (signo == SIGWINCH) return send_window();
  if (signo == SIGINT && ++interrupts_ >= kMostInterrupts) return give_up(signo);
  const bool is_hangup = signo == SIGTERM || signo == SIGHUP;
  if (is_hangup && (++hangups_ > 1 || has_terminal_)) return give_up(signo);
  v1::ExecRequest request;
  request.set_signal(signo);
  send(request);
}

void ExecSession::send_window() {
  if (!has_terminal_) return;
  const TerminalSize size = terminal_size();
  v1::ExecRequest request;
  request.mutable_window_size()->set_rows(size.rows);
  request.mutable_window_size()->set_columns(size.columns);
  send(request);
}

void ExecSession::give_up(int signo) {
  if (outcome_.given_up_by == 0) outcome_.given_up_by = signo;
  stop_.second.reset();
  call_->cancel();
}

}  // namespace

ExecOutcome run_exec(FoundJob job, v1::ExecRequest first, const ExecStreams& streams, const ExecHooks& hooks) {
  return ExecSession(streams, hooks).run(std::move(job), std::move(first));
}

}  // namespace muster::cli::verbs
