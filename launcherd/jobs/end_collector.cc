#include "launcherd/jobs/end_collector.h"

namespace muster::launcherd {

bool EndCollector::add(model::RankEnd end, base::MonotonicTime now) {
  const bool failed = end.failed() && end.kind != model::EndKind::kStopped;
  if (!ends_.emplace(end.rank, std::move(end)).second) return false;
  if (failed && !first_failure_) first_failure_ = now;
  switch (on_exit_) {
    case model::OnExit::kNonzeroKill:
      return failed;
    case model::OnExit::kAnyKill:
      return true;
    case model::OnExit::kWait:
      return false;
  }
  return false;
}

std::optional<base::MonotonicTime> EndCollector::decision_time() const {
  if (!first_failure_) return std::nullopt;
  return *first_failure_ + kCollectWindow;
}

std::vector<model::RankEnd> EndCollector::ends() const {
  std::vector<model::RankEnd> result;
  result.reserve(ends_.size());
  for (const auto& [rank, end] : ends_) result.push_back(end);
  return result;
}

std::optional<model::RankEnd> EndCollector::root() const {
  const std::vector<model::RankEnd> all = ends();
  const int index = model::root_cause(all);
  if (index < 0) return std::nullopt;
  return all[static_cast<std::size_t>(index)];
}

}  // namespace muster::launcherd
