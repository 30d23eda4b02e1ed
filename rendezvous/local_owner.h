// Finds the owner of the other end of a TCP connection, if both ends are on this host.
//
// It asks the kernel through NETLINK_SOCK_DIAG (sock_diag(7), linux/inet_diag.h) for one exact 4-tuple, so it walks no
// list of sockets. It handles IPv4, IPv6, and IPv4 between IPv6 sockets.
// Thread: any; blocks only for the system calls.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/status.h"
#include "rendezvous/owner_check.h"

namespace muster::rendezvous {

// The peer's socket, as the kernel describes it.
struct LocalSocket {
  uid_t uid = 0;
  std::uint32_t inode = 0;  // as in the links of /proc/PID/fd: "socket:[4711]"
};

// Errors as in local_owner().
base::Result<LocalSocket> local_socket(const ConnectionEnds& ends);

// Returns the uid of the process that holds the peer's socket. NOT_FOUND if no process on this host holds such a
// connection. The peer may be elsewhere or may have closed it. Closed sockets never count, because the kernel names
// root as their owner.
base::Result<uid_t> local_owner(const ConnectionEnds& ends);

// Allows only peers on this host that `uid` owns.
OwnerCheck allow_local_owner(uid_t uid);

}  // namespace muster::rendezvous
