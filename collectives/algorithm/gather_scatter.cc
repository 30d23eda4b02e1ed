#include <cstddef>

#include "collectives/algorithm/rooted.h"

namespace muster::collectives::inline algorithm {

base::Status gather(Exchange& exchange, const Operation& operation, const void* input, void* output, Blocks blocks,
                    int root) {
  const int rank = exchange.rank();
  const std::span own(static_cast<const std::byte*>(input), blocks[static_cast<std::size_t>(rank)].size);
  exchange.begin(operation, Algorithm::kDirect);
  if (rank != root) {
    MUSTER_RETURN_IF_ERROR(exchange.send(root, own));
    return exchange.run();
  }
  copy_block(own, part(output, blocks[static_cast<std::size_t>(rank)]));
  for (int peer = 0; peer < exchange.size(); ++peer) {
    if (peer == root) continue;
    MUSTER_RETURN_IF_ERROR(exchange.receive(peer, part(output, blocks[static_cast<std::size_t>(peer)])));
  }
  return exchange.run();
}

base::Status scatter(Exchange& exchange, const Operation& operation, const void* input, void* output, Blocks blocks,
                     int root) {
  const int rank = exchange.rank();
  const std::span own(static_cast<std::byte*>(output), blocks[static_cast<std::size_t>(rank)].size);
  exchange.begin(operation, Algorithm::kDirect);
  if (rank != root) {
    MUSTER_RETURN_IF_ERROR(exchange.receive(root, own));
    return exchange.run();
  }
  copy_block(part(input, blocks[static_cast<std::size_t>(rank)]), own);
  for (int peer = 0; peer < exchange.size(); ++peer) {
    if (peer == root) continue;
    MUSTER_RETURN_IF_ERROR(exchange.send(peer, part(input, blocks[static_cast<std::size_t>(peer)])));
  }
  return exchange.run();
}

}  // namespace muster::collectives::algorithm
