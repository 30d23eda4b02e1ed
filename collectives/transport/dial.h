// Calls another rank: a TCP connection, and the caller's half of the handshake over it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.h"
#include "base/net.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "collectives/transport/abort.h"
#include "collectives/transport/handshake.h"
#include "collectives/transport/tcp_options.h"

namespace muster::collectives::inline transport {

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

// Calls dial_once() again as often as the connection breaks before the handshake is done: the listener waits for that
// only so long, and this process may have been stopped, or what it sent may have been lost. Until `end`, `abort`, or
// is_gone(), which waits a moment and says whether the other process has ended. A port that nobody listens at is tried
// a few times.
base::Result<Handshake> dial_patiently(const std::function<base::Result<Handshake>()>& dial_once,
                                       base::MonotonicTime end, const AbortRecord& abort,
                                       const std::function<bool()>& is_gone);

}  // namespace muster::collectives::transport
