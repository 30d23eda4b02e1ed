#include "rendezvous/owner_check.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace muster::rendezvous {
namespace {

struct End {
  base::IpAddress address;
  std::uint16_t port;
};

template <typename Call>
base::Result<End> end_of(int socket_fd, Call call, std::string_view what) {
  base::SockAddr name;
  name.size = sizeof name.storage;
  if (call(socket_fd, reinterpret_cast<sockaddr*>(&name.storage), &name.size) != 0) {
    return base::errno_error(errno, what);
  }
  MUSTER_ASSIGN_OR_RETURN(base::IpAddress address, base::IpAddress::from_sockaddr(name.get()));
  const std::uint16_t port = name.get()->sa_family == AF_INET
                                 ? reinterpret_cast<const sockaddr_in*>(name.get())->sin_port
                                 : reinterpret_cast<const sockaddr_in6*>(name.get())->sin6_port;
  return End{std::move(address), ntohs(port)};
}

}  // namespace

base::Result<ConnectionEnds> connection_ends(int socket_fd) {
  MUSTER_ASSIGN_OR_RETURN(End peer, end_of(socket_fd, ::getpeername, "read the peer of a connection"));
  MUSTER_ASSIGN_OR_RETURN(End local, end_of(socket_fd, ::getsockname, "read the own end of a connection"));
  return ConnectionEnds{std::move(peer.address), peer.port, std::move(local.address), local.port};
}

}  // namespace muster::rendezvous
