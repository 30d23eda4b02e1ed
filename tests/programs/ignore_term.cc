// Ignores every signal that a program may ignore.
#include <csignal>
#include <initializer_list>

#include "tests/programs/victim.h"

int main() {
  for (const int signo : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) ::signal(signo, SIG_IGN);
  write_line("ready\n", 6);
  live_on();
}
