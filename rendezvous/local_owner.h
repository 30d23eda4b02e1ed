// Who owns the other end of a TCP connection that both begins and ends on this host.
//
// Asked of the kernel with NETLINK_SOCK_DIAG (sock_diag(7), linux/inet_diag.h) for one exact 4-tuple: no list of
// sockets is walked. IPv4, IPv6, and IPv4 between IPv6 sockets. Blocks for the system calls only; any thread.
#pragma once

#include <sys/types.h>

#include "base/status.h"
#include "rendezvous/owner_check.h"

namespace muster::rendezvous {

// The uid of the process that holds the peer's socket. NOT_FOUND: this host has no such connection that a process still
// holds (a peer elsewhere; one that has closed: the kernel then names root as the owner, so that must not count).
base::Result<uid_t> local_owner(const ConnectionEnds& ends);

// Allows peers on this host that `uid` owns, and nobody else.
OwnerCheck allow_local_owner(uid_t uid);

}  // namespace muster::rendezvous
