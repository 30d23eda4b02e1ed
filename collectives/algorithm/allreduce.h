// Allreduce over links. Every rank gets the reduction of all ranks' inputs. The operation is in place if output ==
// input. The caller chooses the algorithm, which must be the same on all ranks:
//
//                       steps          bytes sent by a rank    good for
//   one shot            1              (p-1) S                 tiny vectors; all inputs in rank order, one rounding
//   recursive doubling  log2 p (+ 2)   log2(p) S               small vectors of many ranks
//   pairwise            2              2 (p-1)/p S             middle sizes; 16-bit floats of any size: all inputs in
//                                                              rank order, one rounding
//   ring                2 (p-1)        2 (p-1)/p S             large vectors
//
// With each algorithm, all ranks get the same bits, and so does every run. Errors: see exchange.h.
#pragma once

#include "base/status.h"
#include "collectives/algorithm/choice.h"
#include "collectives/algorithm/reduce_task.h"
#include "collectives/transport/exchange.h"

namespace muster::collectives::inline algorithm {

base::Status one_shot_allreduce(Exchange& exchange, const Operation& operation, const ReduceTask& reduction);
base::Status recursive_doubling_allreduce(Exchange& exchange, const Operation& operation, const ReduceTask& reduction);
base::Status pairwise_allreduce(Exchange& exchange, const Operation& operation, const ReduceTask& reduction);
// Do not use it for types with wants_one_go() if there are more than two ranks.
base::Status ring_allreduce(Exchange& exchange, const Operation& operation, const ReduceTask& reduction);

// Runs one of the above.
base::Status linked_allreduce(AllreduceAlgorithm algorithm, Exchange& exchange, const Operation& operation,
                              const ReduceTask& reduction);

}  // namespace muster::collectives::algorithm
