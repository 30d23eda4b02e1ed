// connect_host() connects to a named host by TCP. It resolves the name, then tries all its addresses. The next attempt
// starts after 250 ms, or as soon as the last one fails. The first connection wins. Calls block at most as long as the
// Waiter allows.
#pragma once

#include <string>
#include <vector>

#include "base/net.h"
#include "base/unique_fd.h"
#include "launcherd/bootstrap/failure.h"
#include "launcherd/bootstrap/waiter.h"

namespace muster::launcherd::inline bootstrap {

// Returns address literals unchanged (IPv6 without brackets). getaddrinfo cannot be interrupted, so it runs on its own
// thread. If the Waiter ends the wait, that thread is abandoned; it owns all that it uses.
Failure resolve_host(const std::string& name, const Waiter& waiter, std::vector<base::IpAddress>& addresses);

// The socket is non-blocking and close-on-exec. A failure names the address that failed.
Failure connect_host(const std::string& name, int port, const Waiter& waiter, base::UniqueFd& socket);

}  // namespace muster::launcherd::bootstrap
