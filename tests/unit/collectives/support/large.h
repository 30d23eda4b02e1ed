// How many elements a large vector of a test has.
#pragma once

#include <cstddef>

namespace muster::collectives {

// Under ThreadSanitizer every access of the test's own costs ten times as much, and which of them race does not depend
// on how many there are: an eighth of `count`.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kIsThreadSanitized = true;
#else
inline constexpr bool kIsThreadSanitized = false;
#endif
constexpr std::size_t large(std::size_t count) {
  return kIsThreadSanitized ? count / 8 | 1 : count;
}

}  // namespace muster::collectives
