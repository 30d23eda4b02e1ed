#include "cli/view/raw_terminal.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace muster::cli::inline view {
namespace {

// While this exists, a background process that touches its terminal gets an error from that call. Otherwise the call
// would stop the process.
class JobControlHeld {
 public:
  JobControlHeld() {
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGTTIN);
    ::sigaddset(&set, SIGTTOU);
    ::pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  ~JobControlHeld() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  JobControlHeld(const JobControlHeld&) = delete;
  JobControlHeld& operator=(const JobControlHeld&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

bool is_foreground(int fd) {
  const pid_t group = ::tcgetpgrp(fd);
  return group < 0 || group == ::getpgrp();
}

ssize_t read_quietly(int fd, char* into, std::size_t size) {
  const JobControlHeld held;
  return ::read(fd, into, size);
}

TerminalSize terminal_size() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    winsize size{};
    if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0) return {size.ws_row, size.ws_col};
  }
  return {};
}

bool RawTerminal::enter() {
  if (before_) return true;
  termios modes{};
  if (::tcgetattr(fd_, &modes) != 0 || !is_foreground(fd_)) return false;
  termios raw = modes;
  ::cfmakeraw(&raw);
  const JobControlHeld held;
  if (::tcsetattr(fd_, TCSANOW, &raw) != 0) return false;
  before_ = modes;
  return true;
}

void RawTerminal::leave() {
  if (!before_) return;
  const JobControlHeld held;
  // Ignore failure: a terminal that was hung up has no mode to restore.
  if (is_foreground(fd_)) (void)::tcsetattr(fd_, TCSANOW, &*before_);
  before_.reset();
}

}  // namespace muster::cli::view
