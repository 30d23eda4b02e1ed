// Operations over links that end or begin at one rank, the root. Errors: exchange.h.
#pragma once

#include "base/status.h"
#include "collectives/algorithm/blocks.h"
#include "collectives/algorithm/reduce_task.h"
#include "collectives/transport/exchange.h"

namespace muster::collectives::inline algorithm {

// Rank i's `input` to blocks[i] of the root's output. In place if the root's input is its block. Others than the root
// have no output, and of `blocks` only their own is looked at.
base::Status gather(Exchange& exchange, const Operation& operation, const void* input, void* output, Blocks blocks,
                    int root);
// blocks[i] of the root's input to rank i's `output`, in place if the root's output is its block. Others than the root
// have no input, and of `blocks` only their own is looked at.
base::Status scatter(Exchange& exchange, const Operation& operation, const void* input, void* output, Blocks blocks,
                     int root);

// The reduction of all ranks' inputs, in the order of the ranks and in one go, to the root's output, which may be its
// input. Others than the root need no output.
//   direct  everyone sends all to the root                                  small vectors
//   sliced  everyone reduces a slice, and sends the result to the root      large vectors
base::Status direct_reduce(Exchange& exchange, const Operation& operation, const ReduceTask& reduction, int root);
base::Status sliced_reduce(Exchange& exchange, const Operation& operation, const ReduceTask& reduction, int root);

}  // namespace muster::collectives::algorithm
