#include "launcherd/hosts/ask_program.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "launcherd/bootstrap/child.h"

namespace muster::launcherd::inline hosts {
namespace {

using base::Code;
using base::error;

constexpr std::size_t kMaxOutput = 1u << 20;  // about 50,000 hosts
constexpr std::chrono::milliseconds kPollPause{10};

// Appends what `fd` has now. False at the end of the stream, or if nothing is there.
bool read_some(int fd, std::string& to) {
  char buffer[16 * 1024];
  const ssize_t count = ::read(fd, buffer, sizeof buffer);
  if (count > 0) to.append(buffer, static_cast<std::size_t>(count));
  return count > 0 || (count < 0 && errno == EINTR);
}

bool is_readable(int fd) {
  pollfd end{fd, POLLIN, 0};
  return ::poll(&end, 1, 0) > 0;
}

// Reads until the program has ended. Processes that it has started may hold its output open for longer, so the end of
// the output does not count. Stops after kMaxOutput bytes, because the program may never end.
base::Status run_bounded(const SpawnedChild& child, const Waiter& waiter, ProgramResult& result) {
  const int output = child.stdio.get();
  const int errors = child.errors.get();
  const int program = child.process->pidfd();
  MUSTER_RETURN_IF_ERROR(base::set_nonblocking(output, true));
  ::shutdown(output, SHUT_WR);  // the program's stdin is empty
  while (result.output.size() <= kMaxOutput) {
    MUSTER_RETURN_IF_ERROR(waiter.check());
    const bool has_ended = is_readable(program);  // before the reads, so that nothing is missed
    const bool has_read = read_some(output, result.output);
    const bool has_errors = read_some(errors, result.errors);
    if (result.errors.size() > kMaxOutput) result.errors.resize(kMaxOutput);
    if (has_read || has_errors) continue;
    if (has_ended) return base::ok_status();
    // A stream that has ended is always readable: wait for the program alone then.
    const pollfd fds[] = {{program, POLLIN, 0}, {output, POLLIN, 0}, {errors, POLLIN, 0}};
    const bool may_spin = is_readable(output) || is_readable(errors);
    const auto pause = may_spin ? waiter.wait({fds, 1}, base::monotonic_now() + kPollPause) : waiter.wait(fds);
    MUSTER_RETURN_IF_ERROR(pause);
  }
  return base::ok_status();
}

}  // namespace

std::string quoted_errors(const ProgramResult& result) {
  const std::string words = quote_for_message(result.errors);
  return words.empty() ? "" : "; it printed: " + words;
}

base::Result<ProgramResult> ask_program(const std::string& name, const std::vector<std::string>& argv,
                                        const Waiter& waiter) {
  const auto child = spawn_child(argv.front(), argv, {}, ChildLife::kOfThisThread);
  if (!child.ok()) return child.status().with_context(name);
  ProgramResult result;
  const base::Status run = run_bounded(*child, waiter, result);
  child->process->kill_group();  // also ends what the program has left behind
  if (!run.ok()) {
    const bool is_late = run.code() == Code::kDeadlineExceeded;
    return error(run.code(), "{} {}{}", name, is_late ? "took too long and was killed" : "was interrupted",
                 quoted_errors(result));
  }
  if (result.output.size() > kMaxOutput) {
    return base::resource_exhausted("{} prints more than {} MiB", name, kMaxOutput >> 20);
  }
  child->process->reap();  // it has ended
  result.exit_status = child->process->exit_status();
  if (result.exit_status > 128) {
    return base::unavailable("{} was ended by signal {}{}", name, result.exit_status - 128, quoted_errors(result));
  }
  if (result.exit_status != 0) {
    return base::unavailable("{} ended with exit code {}{}", name, result.exit_status, quoted_errors(result));
  }
  return result;
}

}  // namespace muster::launcherd::hosts
