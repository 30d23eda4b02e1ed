// Ranks are int, as in every API of this kind; containers of one element for each rank are indexed by std::size_t.
#pragma once

#include <cstddef>

namespace muster::collectives::inline transport {

inline std::size_t rank_index(int rank) {
  return static_cast<std::size_t>(rank);
}

}  // namespace muster::collectives::transport
