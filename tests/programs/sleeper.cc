// Lives until it is ended; on SIGUSR1 it writes a line, on SIGTERM it ends with 7 when a second argument is given.
#include <csignal>

#include "tests/programs/victim.h"

namespace {
void on_usr1(int) {
  write_line("usr1\n", 5);
}
void on_term(int) {
  ::_exit(7);
}
}  // namespace

int main(int argc, char**) {
  ::signal(SIGUSR1, on_usr1);
  if (argc > 2) ::signal(SIGTERM, on_term);
  write_line("ready\n", 6);
  live_on();
}
