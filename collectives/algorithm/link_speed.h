// Measures the links between hosts, for the choice between algorithms over links (choice.h).
#pragma once

#include "base/status.h"
#include "collectives/algorithm/choice.h"
#include "collectives/transport/exchange.h"

namespace muster::collectives::inline algorithm {

// Collective: one rank of each host calls it, at the same time. Neighbours exchange a few messages of some bytes and of
// 128 KiB. It takes half a millisecond in a fast network and four at 1 Gbit/s. All ranks get the result for the slowest
// link. Errors: see exchange.h.
base::Result<LinkSpeed> measure_links(Exchange& exchange);

}  // namespace muster::collectives::algorithm
