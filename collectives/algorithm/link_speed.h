// How fast the links between hosts are: what the choice between algorithms over them is computed from (choice.h).
#pragma once

#include "base/status.h"
#include "collectives/algorithm/choice.h"
#include "collectives/transport/exchange.h"

namespace muster::collectives::inline algorithm {

// Collective: by one rank of each host, at the same time. A few messages of some bytes and of 128 KiB between
// neighbours: half a millisecond in a fast network, four at 1 Gbit/s. The same on all ranks: that of the slowest link.
// Errors: exchange.h.
base::Result<LinkSpeed> measure_links(Exchange& exchange);

}  // namespace muster::collectives::algorithm
