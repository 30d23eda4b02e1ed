// Decides who may speak to a store whose protocol has no authentication. It decides by the owner of the peer's socket,
// for each connection, before a byte is read.
//
// The caller passes the check as a function, so that this room's servers do not depend on hosts and agents. For a peer
// on this host, the check uses the uid of the peer's socket. For a peer on another host of the job, it asks that host's
// agent.
#pragma once

#include <cstdint>
#include <functional>

#include "base/net.h"

namespace muster::rendezvous {

// Both ends of a TCP connection, as this host sees them.
struct ConnectionEnds {
  base::IpAddress peer;
  std::uint16_t peer_port = 0;
  base::IpAddress local;
  std::uint16_t local_port = 0;
};

// Returns the ends of a connected IPv4 or IPv6 socket. An error means that it is no longer connected.
base::Result<ConnectionEnds> connection_ends(int socket_fd);

// Called on the loop thread for each new connection. It must call `done` exactly once, on the loop thread, at once or
// later. A server that was destroyed ignores the call. `allowed` = false closes the connection before any byte is read.
using OwnerCheck = std::function<void(const ConnectionEnds& ends, std::function<void(bool allowed)> done)>;

}  // namespace muster::rendezvous
