// Sizes of memory in the unit of proto/'s messages.
#pragma once

#include <cstdint>

namespace muster::agent::inline gpus {

// Returns the number of whole MiB in `bytes`.
inline std::int64_t mebibytes(std::uint64_t bytes) {
  constexpr int kBytesPerMibBits = 20;
  return static_cast<std::int64_t>(bytes >> kBytesPerMibBits);
}

}  // namespace muster::agent::gpus
