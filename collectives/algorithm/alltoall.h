// Alltoall(v) over links. Block j of this rank's input goes to rank j's output, as the block of this rank. Both ranks
// of a pair must agree on the sizes of their blocks. Errors: see exchange.h.
#pragma once

#include "base/status.h"
#include "collectives/algorithm/blocks.h"
#include "collectives/transport/exchange.h"

namespace muster::collectives::inline algorithm {

// Rank r sends to r + 1, r + 2 … and receives from r - 1, r - 2 …, a few at a time. Input and output must not overlap.
base::Status pairwise_alltoall(Exchange& exchange, const Operation& operation, const void* input, Blocks input_blocks,
                               void* output, Blocks output_blocks);
// Exchanges each block of `data` with its rank's block for this rank. Both blocks must have the same size.
base::Status alltoall_in_place(Exchange& exchange, const Operation& operation, void* data, Blocks blocks);

}  // namespace muster::collectives::algorithm
