// Starts a child in a session of its own and ends at once with 0; with a second argument it lives on.
#include "tests/programs/victim.h"

int main(int argc, char**) {
  if (::fork() == 0) {
    ::setsid();
    live_on();
  }
  write_line("ready\n", 6);
  if (argc > 2) live_on();
  return 0;
}
