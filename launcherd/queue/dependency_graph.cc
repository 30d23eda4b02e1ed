#include "launcherd/queue/dependency_graph.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace muster::launcherd::inline queue {

void DependencyGraph::set(const base::JobId& waiting, std::vector<model::JobDependency> awaited) {
  for (const model::JobDependency& before : awaited_by(waiting)) {
    const auto found = waiting_.find(before.job);
    found->second.erase(waiting);
    if (found->second.empty()) waiting_.erase(found);
  }
  for (const model::JobDependency& each : awaited) waiting_[each.job].insert(waiting);
  if (awaited.empty()) {
    awaited_.erase(waiting);
  } else {
    awaited_.insert_or_assign(waiting, std::move(awaited));
  }
}

const std::vector<model::JobDependency>& DependencyGraph::awaited_by(const base::JobId& waiting) const {
  static const std::vector<model::JobDependency> kNone;
  const auto found = awaited_.find(waiting);
  return found == awaited_.end() ? kNone : found->second;
}

std::vector<base::JobId> DependencyGraph::waiting_for(const base::JobId& awaited) const {
  const auto found = waiting_.find(awaited);
  if (found == waiting_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

// Searches breadth first, so that the reported circle is a shortest one.
std::vector<base::JobId> DependencyGraph::circle(const base::JobId& waiting,
                                                 std::span<const model::JobDependency> more) const {
  std::map<base::JobId, base::JobId> reached_from;
  std::deque<base::JobId> next;
  const auto reach = [&](const base::JobId& from, const base::JobId& to) {
    if (reached_from.emplace(to, from).second) next.push_back(to);
  };
  for (const model::JobDependency& each : more) reach(waiting, each.job);
  while (!next.empty() && !reached_from.contains(waiting)) {
    const base::JobId job = next.front();
    next.pop_front();
    for (const model::JobDependency& each : awaited_by(job)) reach(job, each.job);
  }
  if (!reached_from.contains(waiting)) return {};
  std::vector<base::JobId> circle = {waiting};
  do {
    circle.push_back(reached_from.at(circle.back()));
  } while (circle.back() != waiting);
  std::ranges::reverse(circle);
  return circle;
}

}  // namespace muster::launcherd::queue
