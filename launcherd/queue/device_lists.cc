#include "launcherd/queue/device_lists.h"

#include <algorithm>

namespace muster::launcherd::inline queue {

DeviceLists::ByHost& DeviceLists::of(const ShareRequest& wish) {
  const auto found = std::ranges::find_if(
      entries_, [&](const Entry& entry) { return entry.pinning == wish.pinning && entry.masks == wish.masks; });
  if (found != entries_.end()) return found->lists;
  return entries_.emplace_back(Entry{.pinning = wish.pinning, .masks = wish.masks, .lists = {}}).lists;
}

}  // namespace muster::launcherd::queue
