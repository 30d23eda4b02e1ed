// Sizes of memory as the messages of proto/ have them.
#pragma once

#include <cstdint>

namespace muster::agent::inline gpus {

// Whole MiB in `bytes`.
inline std::int64_t mebibytes(std::uint64_t bytes) {
  constexpr int kBytesPerMibBits = 20;
  return static_cast<std::int64_t>(bytes >> kBytesPerMibBits);
}

}  // namespace muster::agent::gpus
