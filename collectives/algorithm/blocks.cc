#include "collectives/algorithm/blocks.h"

#include <algorithm>
#include <cstring>

#include "collectives/kernel/reduce.h"

namespace muster::collectives::inline algorithm {
namespace {

// Larger than the caches of a core.
constexpr std::size_t kLarge = 4 << 20;

}  // namespace

std::vector<Slice> blocks_of(std::span<const std::size_t> counts, DType type) {
  std::vector<Slice> blocks;
  std::size_t at = 0;
  for (const std::size_t count : counts) {
    blocks.push_back({at, count * size_of(type)});
    at += blocks.back().size;
  }
  return blocks;
}

void copy_block(std::span<const std::byte> from, std::span<std::byte> to) {
  const std::size_t size = std::min(from.size(), to.size());
  if (size == 0 || from.data() == to.data()) return;
  if (size >= kLarge) {
    copy_streaming(to.data(), from.data(), size);
  } else {
    std::memcpy(to.data(), from.data(), size);
  }
}

}  // namespace muster::collectives::algorithm
