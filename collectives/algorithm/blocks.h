// The place of each rank's part in a vector, for allgather(v), alltoall(v), gather and scatter.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/algorithm/slices.h"
#include "collectives/kernel/dtype.h"

namespace muster::collectives::inline algorithm {

// One block for each rank, in bytes from the start of the vector. Blocks do not overlap.
using Blocks = std::span<const Slice>;

inline std::span<std::byte> part(void* vector, const Slice& block) {
  return {static_cast<std::byte*>(vector) + block.begin, block.size};
}
inline std::span<const std::byte> part(const void* vector, const Slice& block) {
  return {static_cast<const std::byte*>(vector) + block.begin, block.size};
}

// Rank r's block has counts[r] elements. The blocks lie one behind the other.
std::vector<Slice> blocks_of(std::span<const std::size_t> counts, DType type);

// Copies `from` to `to`, unless they are the same memory.
void copy_block(std::span<const std::byte> from, std::span<std::byte> to);

}  // namespace muster::collectives::algorithm
