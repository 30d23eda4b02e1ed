// Listening TCP sockets for an address as users write it: "host:port", "10.0.0.1:7400", "[::]:0".
//
// A name is listened at on each of its addresses that this host has, at the same port. 0.0.0.0 and [::] are all
// addresses of both families. Blocks while the name is looked up.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::launcherd::inline service {

struct TcpListener {
  std::vector<base::UniqueFd> sockets;  // at least one; non-blocking
  int port = 0;                         // the one that was picked for port 0
};

// INVALID_ARGUMENT: not an address. UNAVAILABLE and others: the name is unknown, or the port is taken.
base::Result<TcpListener> listen_tcp(const std::string& address);

}  // namespace muster::launcherd::service
