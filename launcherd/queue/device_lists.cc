#include "launcherd/queue/device_lists.h"

#include <algorithm>

namespace muster::launcherd::inline queue {

DeviceLists::ByHost& DeviceLists::of(const ShareRequest& request) {
  const auto found = std::ranges::find_if(
      entries_, [&](const Entry& entry) { return entry.pinning == request.pinning && entry.masks == request.masks; });
  if (found != entries_.end()) return found->lists;
  return entries_.emplace_back(Entry{.pinning = request.pinning, .masks = request.masks, .lists = {}}).lists;
}

}  // namespace muster::launcherd::queue
