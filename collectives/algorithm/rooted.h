// Operations over links that begin or end at one rank, the root. Errors: see exchange.h.
#pragma once

#include "base/status.h"
#include "collectives/algorithm/blocks.h"
#include "collectives/algorithm/reduce_task.h"
#include "collectives/transport/exchange.h"

namespace muster::collectives::inline algorithm {

// Sends rank i's `input` to blocks[i] of the root's output. The operation is in place if the root's input is its block.
// Other ranks have no output, and use only their own entry of `blocks`.
base::Status gather(Exchange& exchange, const Operation& operation, const void* input, void* output, Blocks blocks,
                    int root);
// Sends blocks[i] of the root's input to rank i's `output`. The operation is in place if the root's output is its
// block. Other ranks have no input, and use only their own entry of `blocks`.
base::Status scatter(Exchange& exchange, const Operation& operation, const void* input, void* output, Blocks blocks,
                     int root);

// Puts the reduction of all ranks' inputs, in rank order and in one go, into the root's output. That output may be the
// root's input. Other ranks need no output.
//   direct  every rank sends all to the root                                 small vectors
//   sliced  every rank reduces a slice and sends the result to the root      large vectors
base::Status direct_reduce(Exchange& exchange, const Operation& operation, const ReduceTask& reduction, int root);
base::Status sliced_reduce(Exchange& exchange, const Operation& operation, const ReduceTask& reduction, int root);

}  // namespace muster::collectives::algorithm
