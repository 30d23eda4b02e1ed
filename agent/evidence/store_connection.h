// The connection of a rank to torch's TCPStore, which the agent of rank 0's host serves at MASTER_ADDR:MASTER_PORT. A
// look finds it among the sockets of the rank's process. Then the agent knows, or asks the agent of rank 0's host, what
// the client at its end waits for.
//
// Thread: any; pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "agent/proc/process_sockets.h"
#include "base/status.h"
#include "rendezvous/owner_check.h"

namespace muster::agent::inline evidence {

// A process with more connections than that is left out.
inline constexpr std::size_t kMostStoreConnections = 8;

// Returns the connections among the sockets of a rank that lead to this port, in the order of the rank's own ports. The
// ends are those that the server sees, so the rank is the peer.
std::vector<rendezvous::ConnectionEnds> store_connections(std::span<const TcpSocket> sockets, std::uint16_t port);

// Writes and parses the form in which a look reports the ends: "10.0.0.2 40312 10.0.0.1 29500; …".
std::string format_store_connections(std::span<const rendezvous::ConnectionEnds> connections);
base::Result<std::vector<rendezvous::ConnectionEnds>> parse_store_connections(std::string_view text);

}  // namespace muster::agent::evidence
