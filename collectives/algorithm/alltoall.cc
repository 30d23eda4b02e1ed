#include "collectives/algorithm/alltoall.h"

#include <algorithm>
#include <cstddef>

namespace muster::collectives::inline algorithm {
namespace {

// Peers to which a rank sends at the same time: enough to fill the network, but not so many that a receiver is overrun.
constexpr int kInFlight = 8;

std::size_t index_of(int rank) {
  return static_cast<std::size_t>(rank);
}

}  // namespace

base::Status pairwise_alltoall(Exchange& exchange, const Operation& operation, const void* input, Blocks input_blocks,
                               void* output, Blocks output_blocks) {
  const int size = exchange.size();
  const int rank = exchange.rank();
  copy_block(part(input, input_blocks[index_of(rank)]), part(output, output_blocks[index_of(rank)]));
  for (int first = 1; first < size; first += kInFlight) {
    exchange.begin(operation, Algorithm::kPairwise);
    for (int step = first; step < std::min(size, first + kInFlight); ++step) {
      const int to = (rank + step) % size;
      const int from = (rank - step + size) % size;
      MUSTER_RETURN_IF_ERROR(exchange.send(to, part(input, input_blocks[index_of(to)])));
      MUSTER_RETURN_IF_ERROR(exchange.receive(from, part(output, output_blocks[index_of(from)])));
    }
    MUSTER_RETURN_IF_ERROR(exchange.run());
  }
  return base::ok_status();
}

// In step s, ranks whose sum is s (modulo the number of ranks) exchange their blocks. Both do so in the same step, so
// that a block is copied before the other one overwrites it.
base::Status alltoall_in_place(Exchange& exchange, const Operation& operation, void* data, Blocks blocks) {
  const int size = exchange.size();
  const int rank = exchange.rank();
  std::size_t largest = 0;
  for (const Slice& block : blocks) largest = std::max(largest, padded(block.size));
  const std::span<std::byte> scratch = exchange.scratch(largest * kInFlight);
  for (int first = 0; first < size; first += kInFlight) {
    exchange.begin(operation, Algorithm::kPairwise);
    for (int step = first; step < std::min(size, first + kInFlight); ++step) {
      const int peer = (step - rank + size) % size;
      if (peer == rank) continue;
      const std::span<std::byte> place = part(data, blocks[index_of(peer)]);
      const std::span<std::byte> copy = scratch.subspan(largest * index_of(step - first), place.size());
      copy_block(place, copy);
      MUSTER_RETURN_IF_ERROR(exchange.send(peer, copy));
      MUSTER_RETURN_IF_ERROR(exchange.receive(peer, place));
    }
    MUSTER_RETURN_IF_ERROR(exchange.run());
  }
  return base::ok_status();
}

}  // namespace muster::collectives::algorithm
