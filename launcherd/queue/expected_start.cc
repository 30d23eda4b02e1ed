#include "launcherd/queue/expected_start.h"

#include <map>
#include <utility>

namespace muster::launcherd::inline queue {

std::optional<base::Duration> expected_start(JobQueue queue, const base::JobId& id, std::vector<SlotHost> hosts,
                                             const std::vector<RunningUntil>& running, const LimitOf& limit_of) {
  if (!queue.has(id) || queue.size() + running.size() > kMostEstimated) return std::nullopt;
  std::multimap<base::Duration, model::Placement> ends;
  for (const RunningUntil& each : running) ends.emplace(each.left, each.placement);
  for (base::Duration now{};;) {
    for (JobQueue::Start& start : queue.start(hosts)) {
      if (start.id == id) return now;
      if (const auto limit = limit_of(start.id)) ends.emplace(now + *limit, std::move(start.placement));
    }
    if (ends.empty()) return std::nullopt;
    now = ends.begin()->first;
    while (!ends.empty() && ends.begin()->first == now) {
      release_slots(ends.begin()->second, hosts);
      ends.erase(ends.begin());
    }
  }
}

}  // namespace muster::launcherd::queue
