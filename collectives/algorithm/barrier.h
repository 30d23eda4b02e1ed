// Barrier over links: no rank returns before all have called it. Errors: see exchange.h.
#pragma once

#include "base/status.h"
#include "collectives/transport/exchange.h"

namespace muster::collectives::inline algorithm {

// In step k a rank sends to the rank 2^k to its right and receives from the rank 2^k to its left. It takes ceil(log2 p)
// steps.
base::Status dissemination_barrier(Exchange& exchange, const Operation& operation);

}  // namespace muster::collectives::algorithm
