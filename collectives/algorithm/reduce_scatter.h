// Reduce-scatter over links: `reduction.input` has `reduction.count` elements for each rank; rank i gets the reduction
// of everyone's i-th part, in the order of the ranks and in one go, in `reduction.output`, which may be the input (the
// result then lies in its beginning, and the rest of it is as it was). Errors: exchange.h.
#pragma once

#include "base/status.h"
#include "collectives/algorithm/reduce_task.h"
#include "collectives/transport/exchange.h"

namespace muster::collectives::inline algorithm {

base::Status pairwise_reduce_scatter(Exchange& exchange, const Operation& operation, const ReduceTask& reduction);

}  // namespace muster::collectives::algorithm
