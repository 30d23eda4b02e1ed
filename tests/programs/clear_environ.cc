// A child that is neither in the rank's environment nor in its process group: it executes itself with an empty
// environment. It stays in the rank's session. The rank lives on.
#include <cstring>

#include "tests/programs/victim.h"

int main(int argc, char** argv) {
  if (argc > 2 && std::strcmp(argv[2], "again") == 0) {
    ::setpgid(0, 0);
    write_line("ready\n", 6);
    live_on();
  }
  if (::fork() == 0) {
    char again[] = "again";
    char* const arguments[] = {argv[0], argv[1], again, nullptr};
    char* const environment[] = {nullptr};
    ::execve("/proc/self/exe", arguments, environment);
    ::_exit(9);
  }
  live_on();
}
