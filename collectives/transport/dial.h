// Calls another rank: a TCP connection, and the caller's half of the handshake over it.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/net.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "collectives/transport/abort.h"
#include "collectives/transport/handshake.h"
#include "collectives/transport/tcp_options.h"

namespace muster::collectives {

// Without waiting: the socket is non-blocking, and perhaps not connected yet. A Handshake on it says how that went.
// `options` (may be null) are set before: BBR, once it has begun on a connection, goes on pacing it when another
// congestion control is chosen.
base::Result<base::UniqueFd> begin_connecting(const base::IpAddress& address, std::uint16_t port,
                                              const TcpOptions* options = nullptr);

// Blocking, until the handshake is done. UNAVAILABLE: nobody listens there, or who does has closed the connection;
// UNAUTHENTICATED: it does not know the secret; DEADLINE_EXCEEDED: no answer before `end`; and what `abort` (may be
// null) says as soon as it is raised.
base::Result<Handshake> dial(const base::IpAddress& address, std::uint16_t port, const std::string& secret,
                             const LinkRequest& request, base::MonotonicTime end, const AbortRecord* abort = nullptr,
                             const TcpOptions* options = nullptr);

}  // namespace muster::collectives
