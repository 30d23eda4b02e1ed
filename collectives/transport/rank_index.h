// Ranks are int, as in every API of this kind. Containers with one element for each rank use std::size_t as index.
#pragma once

#include <cstddef>

namespace muster::collectives::inline transport {

inline std::size_t rank_index(int rank) {
  return static_cast<std::size_t>(rank);
}

}  // namespace muster::collectives::transport
