#include "collectives/algorithm/point_to_point.h"

namespace muster::collectives {

base::Status send_to(Exchange& exchange, const Operation& operation, int peer, std::span<const std::byte> bytes) {
  exchange.begin(operation, Algorithm::kDirect);
  MUSTER_RETURN_IF_ERROR(exchange.send(peer, bytes));
  return exchange.run();
}

base::Status receive_from(Exchange& exchange, const Operation& operation, int peer, std::span<std::byte> place) {
  exchange.begin(operation, Algorithm::kDirect);
  MUSTER_RETURN_IF_ERROR(exchange.receive(peer, place));
  return exchange.run();
}

}  // namespace muster::collectives
