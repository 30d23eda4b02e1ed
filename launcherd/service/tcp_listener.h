// Opens listening TCP sockets for an address as users type it: "host:port", "10.0.0.1:7400", "[::]:0".
//
// A name is opened on each of its addresses that belongs to this host, at the same port. 0.0.0.0 and [::] mean all
// addresses of both families. The call blocks while it resolves the name.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::launcherd::inline service {

struct TcpListener {
  std::vector<base::UniqueFd> sockets;  // at least one; non-blocking
  int port = 0;                         // the port that the kernel chose for port 0
};

// INVALID_ARGUMENT: `address` is malformed. UNAVAILABLE and other codes: the name is unknown, or another program uses
// the port.
base::Result<TcpListener> listen_tcp(const std::string& address);

}  // namespace muster::launcherd::service
