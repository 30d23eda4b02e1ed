// Alltoall(v) over links: block j of this rank's input to rank j's output, block of this rank. Every pair of ranks
// agrees on the sizes of its blocks. Errors: exchange.h.
#pragma once

#include "base/status.h"
#include "collectives/algorithm/blocks.h"
#include "collectives/transport/exchange.h"

namespace muster::collectives::inline algorithm {

// Rank r sends to r + 1, r + 2 … and receives from r - 1, r - 2 …, a few at a time. Input and output do not overlap.
base::Status pairwise_alltoall(Exchange& exchange, const Operation& operation, const void* input, Blocks input_blocks,
                               void* output, Blocks output_blocks);
// Each block of `data` is exchanged for what its rank has for this one: blocks of the same size both ways.
base::Status alltoall_in_place(Exchange& exchange, const Operation& operation, void* data, Blocks blocks);

}  // namespace muster::collectives::algorithm
