// Runs python3 under the warden. Read ask_python() at the end first, then Run::until_empty() and Run::turn().
// Class Run collects the output of that one program.

#include "agent/probe/python.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "agent/launch/limits.h"
#include "agent/probe/python_answer.h"
#include "base/strings.h"

namespace muster::agent::inline probe {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostOutput = 1u << 16;
constexpr milliseconds kCleanUp{5000};

// One run of a program by the warden, from spawn() to JobEmpty.
class Run {
 public:
  Run(Warden& warden, int cancel_fd) : warden_(warden), cancel_fd_(cancel_fd) {}

  base::Status until_empty(const SpawnRequest& request, milliseconds limit);

  const std::string& output() const { return output_; }
  const std::string& errors() const { return errors_; }
  int wait_status() const { return wait_status_; }

 private:
  base::Status turn(Clock::time_point not_after);
  void take(WardenEvent& event);
  static void drain(base::UniqueFd& fd, std::string& into);
  base::Status ended() const;

  Warden& warden_;
  const int cancel_fd_;
  base::UniqueFd out_;
  base::UniqueFd err_;
  std::string output_;
  std::string errors_;
  std::string start_failure_;
  int wait_status_ = 0;
  bool has_ended_ = false;
  bool is_empty_ = false;
  bool is_cancelled_ = false;
};

void Run::drain(base::UniqueFd& fd, std::string& into) {
  char buffer[4096];
  while (fd.valid()) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      fd.reset();
      return;
    }
    into.append(buffer, std::min(static_cast<std::size_t>(n), kMostOutput - std::min(kMostOutput, into.size())));
  }
}

void Run::take(WardenEvent& event) {
  if (auto* const started = std::get_if<RankStarted>(&event)) {
    out_ = std::move(started->stdout_fd);
    err_ = std::move(started->stderr_fd);
  } else if (const auto* const failed = std::get_if<RankStartFailed>(&event)) {
    start_failure_ = failed->message;
    has_ended_ = true;
  } else if (const auto* const exited = std::get_if<RankExited>(&event)) {
    wait_status_ = exited->wait_status;
    has_ended_ = true;
  } else if (std::holds_alternative<JobEmpty>(event)) {
    is_empty_ = true;
  }
}

base::Status Run::turn(Clock::time_point not_after) {
  // poll ignores descriptors below 0.
  pollfd fds[] = {{warden_.fd(), POLLIN, 0}, {out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}, {cancel_fd_, POLLIN, 0}};
  if (is_cancelled_) fds[3].fd = -1;
  const auto left = std::chrono::ceil<milliseconds>(not_after - Clock::now()).count();
  const int ready = ::poll(fds, std::size(fds), static_cast<int>(std::max<long>(0, left)));
  if (ready < 0 && errno != EINTR) return base::errno_error(errno, "wait for python3");
  if (ready <= 0) return base::ok_status();
  MUSTER_ASSIGN_OR_RETURN(std::vector<WardenEvent> events, warden_.read_events());
  for (WardenEvent& event : events) take(event);
  drain(out_, output_);
  drain(err_, errors_);
  is_cancelled_ = is_cancelled_ || fds[3].revents != 0;
  return base::ok_status();
}

base::Status Run::ended() const {
  if (!start_failure_.empty()) return {base::Code::kNotFound, start_failure_};
  if (!has_ended_) return {base::Code::kUnavailable, "it could not be ended"};
  return base::ok_status();
}

base::Status Run::until_empty(const SpawnRequest& request, milliseconds limit) {
  MUSTER_RETURN_IF_ERROR(warden_.spawn(request));
  const auto deadline = Clock::now() + limit;
  while (!has_ended_ && !is_cancelled_ && Clock::now() < deadline) MUSTER_RETURN_IF_ERROR(turn(deadline));
  const bool is_late = !has_ended_;
  MUSTER_RETURN_IF_ERROR(is_late ? warden_.stop(milliseconds(0)) : warden_.finish());
  const auto last = Clock::now() + kCleanUp;
  while (!is_empty_ && Clock::now() < last) MUSTER_RETURN_IF_ERROR(turn(last));
  if (!is_late) return ended();
  return base::deadline_exceeded("python3 did not answer within {:.0f} s",
                                 std::chrono::duration<double>(limit).count());
}

std::string last_line(const std::string& text) {
  std::string_view last;
  for (const std::string_view line : base::split(text, '\n')) {
    if (!base::trim(line).empty()) last = base::trim(line);
  }
  return std::string(last.substr(0, 200));
}

std::string how_it_ended(int wait_status) {
  return WIFSIGNALED(wait_status) ? fmt::format("ended by signal {}", WTERMSIG(wait_status))
                                  : fmt::format("ended with exit status {}", WEXITSTATUS(wait_status));
}

}  // namespace

v1::PythonFact ask_python(Warden& warden, std::vector<std::string> environment, milliseconds limit, int cancel_fd) {
  SpawnRequest request;
  request.argv = {"python3", "-c", std::string(kPythonQuestion)};
  request.env = std::move(environment);
  request.limits = default_limits();
  Run run(warden, cancel_fd);
  const base::Status status = run.until_empty(request, limit);
  v1::PythonFact fact;
  if (!status.ok()) {
    fact.set_failure(base::valid_utf8(status.message()));
    return fact;
  }
  const auto answer = parse_python_answer(run.output());
  if (!answer) {
    const std::string last_error = last_line(run.errors());
    fact.set_failure(base::valid_utf8(
        fmt::format("python3 {}{}{}", how_it_ended(run.wait_status()), last_error.empty() ? "" : ": ", last_error)));
    return fact;
  }
  fact.set_version(answer->version);
  fact.set_path(base::valid_utf8(answer->path));
  fact.set_torch(answer->torch);
  return fact;
}

}  // namespace muster::agent::probe
