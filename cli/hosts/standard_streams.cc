#include "cli/hosts/standard_streams.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "base/print.h"
#include "model/exit_code.h"

namespace muster::cli::inline hosts {
namespace {

// True if the descriptor was closed at the start. Inherited descriptors never have close-on-exec, but those that
// libraries open do.
bool was_closed(int fd) {
  const int flags = ::fcntl(fd, F_GETFD);
  return flags < 0 || (flags & FD_CLOEXEC) != 0;
}

}  // namespace

void hold_standard_streams(char** argv) {
  std::array<char, PATH_MAX> program{};
  bool is_changed = false;
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (!was_closed(fd)) continue;
    const int null = ::open("/dev/null", O_RDWR);
    if (null < 0) return;
    if (null != fd) {
      (void)::dup2(null, fd);  // cannot fail, because both descriptors are valid
      ::close(null);
    }
    is_changed = true;
  }
  // Execute the real path, because ps would show /proc/self/exe as the program's name.
  if (!is_changed || ::readlink("/proc/self/exe", program.data(), program.size() - 1) < 0) return;
  ::execv(program.data(), argv);
}

int print_answer(std::string_view program, std::string_view text) {
  if (base::print_text(stdout, text)) return 0;
  const int reason = errno;
  if (reason == EPIPE) return model::kStdoutClosed;
  base::print_remark("{}: cannot write to stdout: {}\n", program, std::generic_category().message(reason));
  return model::kMusterFailed;
}

int fail_as(std::string_view program, int code, std::string_view message) {
  base::print_remark("{}: {}\n", program, message);
  return code;
}

}  // namespace muster::cli::hosts
