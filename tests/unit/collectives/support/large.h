// How many elements a large vector of a test has.
#pragma once

#include <cstddef>

#include "base/sanitizers.h"

namespace muster::collectives {

// Under ThreadSanitizer every access of the test's own costs ten times as much, and which of them race does not depend
// on how many there are: an eighth of `count`.
constexpr std::size_t large(std::size_t count) {
  return base::kIsThreadSanitized ? count / 8 | 1 : count;
}

}  // namespace muster::collectives
