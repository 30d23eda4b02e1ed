// Is started from memory: says over the socket argv[1] its name, its environment and which descriptors it has, and ends
// with 5 when the socket's other end does.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

int main(int argc, char** argv, char** environment) {
  if (argc != 2) return 2;
  const int socket = std::atoi(argv[1]);
  std::string said = std::string(argv[0]) + "\n";
  for (char** entry = environment; *entry != nullptr; ++entry) said += std::string(*entry) + "\n";
  constexpr int kMost = 64;
  for (int fd = 0; fd < kMost; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) said += std::to_string(fd) + " ";
  }
  said += ".";
  if (::write(socket, said.data(), said.size()) != static_cast<ssize_t>(said.size())) return 3;
  char byte = 0;
  return ::read(socket, &byte, 1) == 0 ? 5 : 4;
}
