// A daemon by the book: forked twice, own session, no descriptors. The rank itself ends with 0; with a second argument
// it lives on.
#include "tests/programs/victim.h"

int main(int argc, char**) {
  int ready[2];
  if (::pipe(ready) != 0) return 9;
  if (::fork() == 0) {
    ::setsid();
    if (::fork() != 0) ::_exit(0);
    if (::chdir("/") != 0) return 9;
    for (int fd = 0; fd < 3; ++fd) ::close(fd);
    ::close(ready[1]);
    live_on();
  }
  ::close(ready[1]);
  char end = 0;
  if (::read(ready[0], &end, 1) != 0) return 9;  // until the daemon runs and its parent has ended
  write_line("ready\n", 6);
  if (argc > 2) live_on();
  return 0;
}
