// Every rank sends all to every rank, and reduces all inputs in rank order.
#include <cstddef>
#include <span>

#include "collectives/algorithm/allreduce.h"
#include "collectives/algorithm/slices.h"

namespace muster::collectives::inline algorithm {

base::Status one_shot_allreduce(Exchange& exchange, const Operation& operation, const ReduceTask& reduction) {
  const std::size_t bytes = reduction.bytes();
  const int size = exchange.size();
  const int rank = exchange.rank();
  const std::span<std::byte> scratch = exchange.scratch(padded(bytes) * static_cast<std::size_t>(size));
  const std::span<const void*> operands = exchange.operands();
  exchange.begin(operation, Algorithm::kOneShot);
  for (int step = 1; step < size; ++step) {
    MUSTER_RETURN_IF_ERROR(exchange.send((rank + step) % size, {reduction.in(), bytes}));
  }
  for (int peer = 0; peer < size; ++peer) {
    const auto index = static_cast<std::size_t>(peer);
    const std::span<std::byte> place = scratch.subspan(padded(bytes) * index, bytes);
    operands[index] = peer == rank ? reduction.in() : place.data();
    if (peer != rank) MUSTER_RETURN_IF_ERROR(exchange.receive(peer, place));
  }
  MUSTER_RETURN_IF_ERROR(exchange.run());
  reduce(reduction.type, reduction.op, operands, reduction.output, reduction.count, reduction.scale);
  return base::ok_status();
}

}  // namespace muster::collectives::algorithm
