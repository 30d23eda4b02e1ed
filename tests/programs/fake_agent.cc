// Behaves as an agent does towards the bootstrap (launcherd/bootstrap/bootstrap.h), and echoes its stdin.
//   --stdio                       marker line, "ready\n", then echo until EOF
//   --install SHA PATH ARGS…      renames itself to PATH (SHA is not checked: 64 characters will do), goes on with ARGS
//   --fresh ARGS…                 goes on with ARGS
//   --sweep ID                    marker line, "swept ID\n", exit status 7
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

void put(int fd, const std::string& text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const ssize_t count = ::write(fd, text.data() + at, text.size() - at);
    if (count <= 0) std::exit(3);
    at += static_cast<std::size_t>(count);
  }
}

int install(const char* sha, const char* path) {
  if (std::strlen(sha) != 64) return 1;
  char self[PATH_MAX] = {};
  if (::readlink("/proc/self/exe", self, sizeof self - 1) <= 0) return 1;
  return std::rename(self, path) == 0 ? 0 : 1;
}

int echo() {
  char buffer[65536];
  for (;;) {
    const ssize_t count = ::read(0, buffer, sizeof buffer);
    if (count <= 0) return 0;
    put(1, std::string(buffer, static_cast<std::size_t>(count)));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string marker = "MUSTER-AGENT 1 fake-build\n";
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--install" && i + 2 < argc) {
      if (install(argv[i + 1], argv[i + 2]) != 0) {
        std::perror("fake_agent: cannot install");
        return 1;
      }
      i += 2;
    } else if (arg == "--sweep" && i + 1 < argc) {
      put(1, marker + "swept " + argv[i + 1] + "\n");
      return 7;
    } else if (arg == "--stdio") {
      put(1, marker + "ready\n");
      put(2, "fake agent is up\n");
      return echo();
    }
  }
  return 2;
}
