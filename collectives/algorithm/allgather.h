// Allgather(v) over links. Rank i's `input` of blocks[i].size bytes goes to blocks[i] of every rank's output. The
// operation is in place if the input is that block. Errors: see exchange.h.
//
//   direct  one step, every rank sends to every rank   small blocks
//   ring    one stream to the right neighbour          large blocks
#pragma once

#include "base/status.h"
#include "collectives/algorithm/blocks.h"
#include "collectives/transport/exchange.h"

namespace muster::collectives::inline algorithm {

base::Status direct_allgather(Exchange& exchange, const Operation& operation, const void* input, void* output,
                              Blocks blocks);
base::Status ring_allgather(Exchange& exchange, const Operation& operation, const void* input, void* output,
                            Blocks blocks);

}  // namespace muster::collectives::algorithm
