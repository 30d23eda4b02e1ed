// Connects to another rank: a TCP connection, and the caller's half of the handshake over it.
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

// Does not wait: the socket is non-blocking and may not be connected yet. A Handshake on it reports the result.
// `options` (may be null) are set before connecting. The order matters for BBR: once BBR has begun on a connection, its
// pacing goes on after a change of congestion control.
base::Result<base::UniqueFd> begin_connecting(const base::IpAddress& address, std::uint16_t port,
                                              const TcpOptions* options = nullptr);

// Blocks until the handshake is done. UNAVAILABLE if no process listens there, or if the listener closed the
// connection. UNAUTHENTICATED if the listener does not know the secret. DEADLINE_EXCEEDED if there is no answer before
// `end`. If `abort` (may be null) is raised, returns its failure.
base::Result<Handshake> dial(const base::IpAddress& address, std::uint16_t port, const std::string& secret,
                             const LinkRequest& request, base::MonotonicTime end, const AbortRecord* abort = nullptr,
                             const TcpOptions* options = nullptr);

// Calls dial_once() again while connections break before the handshake is done. They may break because the listener's
// handshake times out, this process was stopped, or packets were lost. It tries until `end`, until `abort`, or until
// is_gone(). is_gone() waits a moment and returns whether the other process has ended. A port without a listener is
// tried a few times.
base::Result<Handshake> dial_patiently(const std::function<base::Result<Handshake>()>& dial_once,
                                       base::MonotonicTime end, const AbortRecord& abort,
                                       const std::function<bool()>& is_gone);

}  // namespace muster::collectives::transport
