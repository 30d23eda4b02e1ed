#include <fmt/format.h>

#include "collectives/algorithm/allreduce.h"

namespace muster::collectives::inline algorithm {

base::Status linked_allreduce(AllreduceAlgorithm algorithm, Exchange& exchange, const Operation& operation,
                              const ReduceTask& reduction) {
  switch (algorithm) {
    case AllreduceAlgorithm::kOneShot:
      return one_shot_allreduce(exchange, operation, reduction);
    case AllreduceAlgorithm::kRecursiveDoubling:
      return recursive_doubling_allreduce(exchange, operation, reduction);
    case AllreduceAlgorithm::kPairwise:
      return pairwise_allreduce(exchange, operation, reduction);
    case AllreduceAlgorithm::kRing:
      return ring_allreduce(exchange, operation, reduction);
    default:
      return base::internal_error("{} is not an allreduce over links", name_of(algorithm));
  }
}

}  // namespace muster::collectives::algorithm
