#include "launcherd/daemon/heap_trimmer.h"

#include <malloc.h>

#include <algorithm>

namespace muster::launcherd::inline daemon {

bool HeapTrimmer::trim_if_due() {
  const std::size_t free_bytes = ::mallinfo2().fordblks;
  least_free_ = std::min(least_free_, free_bytes);
  if (free_bytes - least_free_ < kWorthwhile) return false;
  ::malloc_trim(0);
  least_free_ = ::mallinfo2().fordblks;
  return true;
}

}  // namespace muster::launcherd::daemon
