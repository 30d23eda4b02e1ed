#include "collectives/algorithm/broadcast.h"

#include <span>

namespace muster::collectives::inline algorithm {

// A rank's number is its distance from the root. Its parent's number lacks the lowest set bit. Its children's numbers
// have one more bit below that bit.
base::Status tree_broadcast(Exchange& exchange, const Operation& operation, void* data, std::size_t bytes, int root) {
  const int size = exchange.size();
  const int number = (exchange.rank() - root + size) % size;
  const std::span all(static_cast<std::byte*>(data), bytes);
  int bit = 1;
  while (bit < size && (number & bit) == 0) bit *= 2;
  if (number != 0) {
    exchange.begin(operation, Algorithm::kTree);
    MUSTER_RETURN_IF_ERROR(exchange.receive((number - bit + root) % size, all));
    MUSTER_RETURN_IF_ERROR(exchange.run());
  }
  exchange.begin(operation, Algorithm::kTree);
  for (bit /= 2; bit > 0; bit /= 2) {
    if (number + bit < size) MUSTER_RETURN_IF_ERROR(exchange.send((number + bit + root) % size, all));
  }
  return exchange.run();
}

base::Status chain_broadcast(Exchange& exchange, const Operation& operation, void* data, std::size_t bytes, int root) {
  const int size = exchange.size();
  const int number = (exchange.rank() - root + size) % size;
  const std::span all(static_cast<std::byte*>(data), bytes);
  exchange.begin(operation, Algorithm::kChain);
  Incoming* from = nullptr;
  Outgoing* to = nullptr;
  if (number > 0) {
    MUSTER_ASSIGN_OR_RETURN(from, exchange.open_receive((exchange.rank() - 1 + size) % size, bytes));
    from->provide(all);
  }
  if (number + 1 < size) {
    MUSTER_ASSIGN_OR_RETURN(to, exchange.open_send((exchange.rank() + 1) % size, bytes));
  }
  return exchange.run([&] {
    if (to == nullptr || !to->needs_more()) return;
    const std::size_t arrived = from == nullptr ? bytes : from->received();
    to->provide(all.subspan(to->sent(), arrived - to->sent()));
  });
}

}  // namespace muster::collectives::algorithm
