#include "cli/hosts/held_signals.h"

#include <sys/signalfd.h>

#include <cerrno>

namespace muster::cli::inline hosts {

base::Result<HeldSignals> HeldSignals::open() {
  sigset_t set;
  sigset_t before;
  ::sigemptyset(&set);
  for (const int signo : {SIGHUP, SIGINT, SIGTERM}) {
    struct sigaction current {};
    const bool is_ignored = ::sigaction(signo, nullptr, &current) == 0 && current.sa_handler == SIG_IGN;
    // Leave ignored signals out (nohup): signalfd would report them all the same.
    if (!is_ignored) ::sigaddset(&set, signo);
  }
  base::UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return base::errno_error(errno, "wait for signals");
  if (::pthread_sigmask(SIG_BLOCK, &set, &before) != 0) return base::errno_error(errno, "block signals");
  return HeldSignals(std::move(fd), before);
}

HeldSignals::~HeldSignals() {
  if (fd_.valid()) ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace muster::cli::hosts
