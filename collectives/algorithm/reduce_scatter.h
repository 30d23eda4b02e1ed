// Reduce-scatter over links. `reduction.input` has `reduction.count` elements for each rank. Rank i gets the reduction
// of all ranks' i-th parts, in rank order and in one go, in `reduction.output`. The output may be the input. Then the
// result lies at its start, and the rest is unchanged. Errors: see exchange.h.
#pragma once

#include "base/status.h"
#include "collectives/algorithm/reduce_task.h"
#include "collectives/transport/exchange.h"

namespace muster::collectives::inline algorithm {

base::Status pairwise_reduce_scatter(Exchange& exchange, const Operation& operation, const ReduceTask& reduction);

}  // namespace muster::collectives::algorithm
