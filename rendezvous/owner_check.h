// Who may speak to a store whose protocol knows no authentication: decided per connection, by the owner of the peer's
// socket, before a byte is read.
//
// The check itself is injected (a peer on this host: the uid of its socket; on another host of the job: what that
// host's agent answers), so that the servers of this room know nothing of hosts and agents.
#pragma once

#include <cstdint>
#include <functional>

#include "base/net.h"

namespace muster::rendezvous {

// Both ends of a TCP connection as this host sees them.
struct ConnectionEnds {
  base::IpAddress peer;
  std::uint16_t peer_port = 0;
  base::IpAddress local;
  std::uint16_t local_port = 0;
};

// Of a connected IPv4 or IPv6 socket; an error if it is not connected any more.
base::Result<ConnectionEnds> connection_ends(int socket_fd);

// Called on the loop thread for each new connection. `done` is called exactly once, on the loop thread, at once or
// later; it may outlive the server, which then ignores it. false: the connection is closed unread.
using OwnerCheck = std::function<void(const ConnectionEnds& ends, std::function<void(bool allowed)> done)>;

}  // namespace muster::rendezvous
