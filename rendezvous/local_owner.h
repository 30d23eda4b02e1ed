// Finds the owner of the other end of a TCP connection, if both ends are on this host.
//
// It asks the kernel through NETLINK_SOCK_DIAG (sock_diag(7), linux/inet_diag.h) for one exact 4-tuple, so it walks no
// list of sockets. It handles IPv4, IPv6, and IPv4 between IPv6 sockets.
// Thread: any; blocks only for the system calls.
#pragma once

#include <sys/types.h>

#include "base/status.h"
#include "rendezvous/owner_check.h"

namespace muster::rendezvous {

// Returns the uid of the process that holds the peer's socket. NOT_FOUND if no process on this host holds such a
// connection. The peer may be elsewhere or may have closed it. Closed sockets never count, because the kernel names
// root as their owner.
base::Result<uid_t> local_owner(const ConnectionEnds& ends);

// Allows only peers on this host that `uid` owns.
OwnerCheck allow_local_owner(uid_t uid);

}  // namespace muster::rendezvous
