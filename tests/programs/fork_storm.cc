// Processes that replace themselves: each forks a successor and ends, 4 lines at a time, at most 3,000
// forks in each: fewer than a machine has pids, whatever is left unreaped meanwhile.
#include <csignal>

#include "tests/programs/victim.h"

int main() {
  ::signal(SIGCHLD, SIG_IGN);
  write_line("ready\n", 6);
  for (int line = 0; line < 4; ++line) {
    if (::fork() != 0) continue;
    ::setsid();
    for (int forks = 0; forks < 3000; ++forks) {
      if (::fork() > 0) ::_exit(0);
      ::usleep(200);
    }
    ::_exit(0);
  }
  live_on();
}
