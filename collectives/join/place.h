// What tells this process's host from others.
#pragma once

#include <string>

namespace muster::collectives::inline join {

// As the user names it: MUSTER_HOSTNAME, else the host's own name.
std::string own_host();

// Ranks for which this is equal can share memory, signal each other and meet at abstract sockets. Nothing alone tells
// hosts apart: names repeat, the first namespaces have the same numbers on every machine, containers share the boot id.
std::string own_place();

}  // namespace muster::collectives::join
