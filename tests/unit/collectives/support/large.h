// How many elements a large vector of a test has.
#pragma once

#include <cstddef>

#include "base/sanitizers.h"

namespace muster::collectives {

// Under sanitizers every access of the test's own costs ten times as much, and whether one is wrong does not depend on how
// many there are: an eighth of `count`.
constexpr std::size_t large(std::size_t count) {
  return base::kIsSanitized ? count / 8 | 1 : count;
}

}  // namespace muster::collectives
