// Distinguishes this process's host from others.
#pragma once

#include <string>

namespace muster::collectives::inline join {

// Returns the host's name as the user knows it: MUSTER_HOSTNAME, or else the host's own name.
std::string own_host();

// Returns this process's place. Ranks with equal places can share memory, signal each other and meet at abstract
// sockets. A place combines several values, because none alone distinguishes hosts. Names repeat, the first namespaces
// have the same numbers on every machine, and containers share the boot id.
std::string own_place();

}  // namespace muster::collectives::join
