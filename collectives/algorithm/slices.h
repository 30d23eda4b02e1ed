// How a vector is cut among ranks. Slices begin at multiples of 64 bytes, so that no two ranks write to one cache line.
#pragma once

#include <algorithm>
#include <cstddef>

namespace muster::collectives::inline algorithm {

struct Slice {
  std::size_t begin = 0;  // bytes
  std::size_t size = 0;   // bytes; may be 0
};

// Returns slice number `index` of `parts` slices of a vector of `bytes` bytes.
inline Slice slice_of(std::size_t bytes, int parts, int index) {
  constexpr std::size_t kUnit = 64;
  const std::size_t units = (bytes + kUnit - 1) / kUnit;
  const auto begin_of = [&](int i) {
    // No size can overflow in this form: the first `units % parts` slices have one unit more.
    const auto count = static_cast<std::size_t>(parts);
    const auto at = static_cast<std::size_t>(i);
    return std::min(bytes, (units / count * at + std::min(units % count, at)) * kUnit);
  };
  return {begin_of(index), begin_of(index + 1) - begin_of(index)};
}

// Returns the bytes that a slice takes in scratch memory, so that the next slice is aligned, too.
inline std::size_t padded(std::size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

}  // namespace muster::collectives::algorithm
