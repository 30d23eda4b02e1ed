#include "cli/view/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

namespace muster::cli::inline view {

base::Result<Signals> Signals::block(const std::vector<int>& signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signo : signals) {
    struct sigaction current {};
    if (::sigaction(signo, nullptr, &current) == 0 && current.sa_handler == SIG_IGN) continue;
    ::sigaddset(&set, signo);
  }
  if (::pthread_sigmask(SIG_BLOCK, &set, nullptr) != 0) return base::errno_error(errno, "block signals");
  base::UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return base::errno_error(errno, "wait for signals");
  return Signals(std::move(fd));
}

void Signals::watch(base::Loop& loop, std::function<void(int signo)> on_signal) {
  watch_ = loop.on_readable(fd_.get(), [fd = fd_.get(), on_signal = std::move(on_signal)] {
    signalfd_siginfo info{};
    while (::read(fd, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      on_signal(static_cast<int>(info.ssi_signo));
    }
  });
}

}  // namespace muster::cli::view
