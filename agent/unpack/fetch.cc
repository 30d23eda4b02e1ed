#include "agent/unpack/fetch.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "agent/unpack/input.h"

namespace muster::agent::inline unpack {
namespace {

using FetchClock = std::chrono::steady_clock;

bool make_address(const std::string& text, int port, sockaddr_storage& address, socklen_t& size) {
  auto& v4 = reinterpret_cast<sockaddr_in&>(address);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
  const auto network_port = htons(static_cast<std::uint16_t>(port));
  if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = network_port;
    size = sizeof v4;
    return true;
  }
  const std::size_t zone = text.find('%');
  if (::inet_pton(AF_INET6, text.substr(0, zone).c_str(), &v6.sin6_addr) != 1) return false;
  v6.sin6_family = AF_INET6;
  v6.sin6_port = network_port;
  if (zone != std::string::npos) v6.sin6_scope_id = ::if_nametoindex(text.c_str() + zone + 1);
  size = sizeof v6;
  return true;
}

struct OpenSocket {
  int fd = -1;
  ~OpenSocket() {
    if (fd >= 0) ::close(fd);
  }
};

Problem connect_to(const std::string& address, int port, std::chrono::milliseconds limit, int& fd) {
  sockaddr_storage to{};
  socklen_t size = 0;
  if (!make_address(address, port, to, size)) return "the address is wrong";
  fd = ::socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return errno_problem(errno, "cannot make a socket");
  if (::connect(fd, reinterpret_cast<sockaddr*>(&to), size) == 0) return {};
  if (errno != EINPROGRESS) return errno_problem(errno, "cannot connect");
  pollfd writable{fd, POLLOUT, 0};
  const int ready = ::poll(&writable, 1, static_cast<int>(limit.count()));
  if (ready <= 0) return "no connection within " + std::to_string(limit.count()) + " ms";
  int error = 0;
  socklen_t error_size = sizeof error;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_size) != 0) error = errno;
  return error == 0 ? Problem() : errno_problem(error, "cannot connect");
}

}  // namespace

Problem fetch_agent(const std::string& address, int port, const std::string& token, HashedFile& file,
                    const FetchLimits& limits) {
  const auto end = FetchClock::now() + limits.whole;
  OpenSocket socket;
  if (Problem problem = connect_to(address, port, limits.connect, socket.fd); !problem.empty()) return problem;
  // The token fits into an empty send buffer.
  if (::send(socket.fd, token.data(), token.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(token.size())) {
    return errno_problem(errno, "cannot send");
  }
  Input input(socket.fd, limits.silence);
  while (file.left() > 0) {
    std::string_view bytes;
    if (Problem problem = input.read_some(bytes, file.left()); !problem.empty()) return problem;
    if (Problem problem = file.write(bytes); !problem.empty()) return problem;
    if (FetchClock::now() > end) return "it takes more than " + std::to_string(limits.whole.count()) + " ms";
  }
  return {};
}

}  // namespace muster::agent::unpack
