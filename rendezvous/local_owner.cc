#include "rendezvous/local_owner.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace muster::rendezvous {
namespace {

struct Request {
  nlmsghdr header{};
  inet_diag_req_v2 body;
};

void put_address(const base::IpAddress& address, __be32 (&into)[4], std::uint32_t* scope) {
  const base::SockAddr socket = base::make_sockaddr(address, 0);
  if (!address.is_v6()) {
    std::memcpy(into, &reinterpret_cast<const sockaddr_in*>(&socket.storage)->sin_addr, sizeof(in_addr));
    return;
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&socket.storage);
  std::memcpy(into, &v6->sin6_addr, sizeof v6->sin6_addr);
  if (v6->sin6_scope_id != 0) *scope = v6->sin6_scope_id;
}

// Makes the request about the peer's socket. In that socket's view, the peer's address is the source and our address is
// the destination.
Request make_request(const ConnectionEnds& ends) {
  Request request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.body.sdiag_family = ends.peer.is_v6() ? AF_INET6 : AF_INET;
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_states = ~0u;
  inet_diag_sockid& id = request.body.id;
  id.idiag_sport = htons(ends.peer_port);
  id.idiag_dport = htons(ends.local_port);
  put_address(ends.peer, id.idiag_src, &id.idiag_if);
  put_address(ends.local, id.idiag_dst, &id.idiag_if);
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return request;
}

// Returns whether the connection is established or half closed. In all other states the kernel's answer may describe a
// socket that never was our peer. It may be a socket that is still connecting from the same port, or a rest of a closed
// connection.
bool is_connected(std::uint8_t state) {
  return state == TCP_ESTABLISHED || state == TCP_FIN_WAIT1 || state == TCP_FIN_WAIT2 || state == TCP_CLOSE_WAIT;
}

base::Result<LocalSocket> read_answer(const char* bytes, std::size_t size) {
  nlmsghdr header{};
  if (size < sizeof header) return base::internal_error("sock_diag: an answer of {} bytes", size);
  std::memcpy(&header, bytes, sizeof header);
  if (header.nlmsg_type == NLMSG_ERROR && size >= NLMSG_HDRLEN + sizeof(nlmsgerr)) {
    nlmsgerr failure{};
    std::memcpy(&failure, bytes + NLMSG_HDRLEN, sizeof failure);
    return base::errno_error(-failure.error, "find the owner of a connection (sock_diag)");
  }
  inet_diag_msg socket{};
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY || size < NLMSG_HDRLEN + sizeof socket) {
    return base::internal_error("sock_diag: an answer of type {}", header.nlmsg_type);
  }
  std::memcpy(&socket, bytes + NLMSG_HDRLEN, sizeof socket);
  if (!is_connected(socket.idiag_state) || socket.idiag_inode == 0) {
    return base::not_found("find the owner of a connection: its process has closed it");
  }
  return LocalSocket{.uid = socket.idiag_uid, .inode = socket.idiag_inode};
}

}  // namespace

base::Result<LocalSocket> local_socket(const ConnectionEnds& ends) {
  if (ends.peer.is_v6() != ends.local.is_v6()) {
    return base::invalid_argument("a connection has ends of different families");
  }
  const base::UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!fd.valid()) return base::errno_error(errno, "open a sock_diag socket");
  const Request request = make_request(ends);
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  const ssize_t sent =
      ::sendto(fd.get(), &request, sizeof request, 0, reinterpret_cast<const sockaddr*>(&kernel), sizeof kernel);
  if (sent != static_cast<ssize_t>(sizeof request)) return base::errno_error(errno, "ask sock_diag");
  // The kernel has answered within sendto(), so do not wait.
  std::array<char, 4096> answer{};
  const ssize_t size = ::recv(fd.get(), answer.data(), answer.size(), MSG_DONTWAIT);
  if (size < 0) return base::errno_error(errno, "read sock_diag's answer");
  return read_answer(answer.data(), static_cast<std::size_t>(size));
}

base::Result<uid_t> local_owner(const ConnectionEnds& ends) {
  MUSTER_ASSIGN_OR_RETURN(const LocalSocket socket, local_socket(ends));
  return socket.uid;
}

OwnerCheck allow_local_owner(uid_t uid) {
  return [uid](const ConnectionEnds& ends, const std::function<void(bool allowed)>& done) {
    const base::Result<uid_t> owner = local_owner(ends);
    done(owner.ok() && *owner == uid);
  };
}

}  // namespace muster::rendezvous
