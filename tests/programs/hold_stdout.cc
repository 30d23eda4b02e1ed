// Ends with 0 at once; a child in a session of its own holds stdout and stderr open.
#include "tests/programs/victim.h"

int main() {
  write_line("ready\n", 6);
  if (::fork() == 0) {
    ::setsid();
    live_on();
  }
  return 0;
}
