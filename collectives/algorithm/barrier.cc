#include "collectives/algorithm/barrier.h"

namespace muster::collectives::inline algorithm {

base::Status dissemination_barrier(Exchange& exchange, const Operation& operation) {
  const int size = exchange.size();
  for (int distance = 1; distance < size; distance *= 2) {
    exchange.begin(operation, Algorithm::kTree);
    MUSTER_RETURN_IF_ERROR(exchange.send((exchange.rank() + distance) % size, {}));
    MUSTER_RETURN_IF_ERROR(exchange.receive((exchange.rank() - distance + size) % size, {}));
    MUSTER_RETURN_IF_ERROR(exchange.run());
  }
  return base::ok_status();
}

}  // namespace muster::collectives::algorithm
