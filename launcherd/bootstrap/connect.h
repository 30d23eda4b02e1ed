// A TCP connection to a named host: name look-up, then all of its addresses, a new one every 250 ms or when one fails;
// the first that connects wins. Blocks at most as long as the Waiter allows.
#pragma once

#include <string>
#include <vector>

#include "base/net.h"
#include "base/unique_fd.h"
#include "launcherd/bootstrap/failure.h"
#include "launcherd/bootstrap/waiter.h"

namespace muster::launcherd::inline bootstrap {

// Literals (v6 without brackets) come back as they are. getaddrinfo cannot be interrupted: it runs on a thread of its
// own that is abandoned (it owns what it needs) when the Waiter says so.
Failure resolve_host(const std::string& name, const Waiter& waiter, std::vector<base::IpAddress>& addresses);

// The socket is non-blocking, close-on-exec. A failure carries the address that it is about.
Failure connect_host(const std::string& name, int port, const Waiter& waiter, base::UniqueFd& socket);

}  // namespace muster::launcherd::bootstrap
