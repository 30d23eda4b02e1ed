#include "launcherd/run/end_collector.h"

#include <algorithm>
#include <iterator>

namespace muster::launcherd::inline run {

bool EndCollector::add(model::RankEnd end, base::MonotonicTime now) {
  const int rank = end.rank;
  const bool is_service = services_.contains(rank);
  const bool is_needed = !is_service || others_ended_ < others() || any_failed();
  const bool failed = end.failed() && end.kind != model::EndKind::kStopped && is_needed;
  const bool is_abort = end.abort_code.has_value();  // MPI_Abort: by MPI's rules it ends all ranks
  if (!ends_.emplace(rank, std::move(end)).second) return false;
  if (!is_service) ++others_ended_;
  if (!is_needed) late_.insert(rank);
  if (failed && !first_failure_) first_failure_ = now;
  switch (on_exit_) {
    case model::OnExit::kNonzeroKill:
      return failed;
    case model::OnExit::kAnyKill:
      return is_needed && (failed || !is_service);
    case model::OnExit::kWait:
      return is_abort;
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
  const int index = root_index();
  if (index < 0) return std::nullopt;
  return std::next(ends_.begin(), index)->second;
}

// Of the ends, only those that failed and that Muster did not cause can be the root cause. So it copies no others.
int EndCollector::root_index() const {
  std::vector<model::RankEnd> failed;
  std::vector<int> places;  // in ends()
  const auto last = others_ended_well_at();
  int place = -1;
  for (const auto& [rank, end] : ends_) {
    ++place;
    // Treat a late end as if Muster had stopped the rank, whether the end or the stop was reported first.
    const bool came_early = last && services_.contains(rank) && end.at_is_known && end.at >= *last;
    const bool is_stopped = end.kind == model::EndKind::kStopped || came_early || late_.contains(rank);
    if (is_stopped || !end.failed()) continue;
    failed.push_back(end);
    places.push_back(place);
  }
  const int root = model::root_cause(failed);
  return root < 0 ? -1 : places[static_cast<std::size_t>(root)];
}

std::optional<base::MonotonicTime> EndCollector::others_ended_well_at() const {
  if (services_.empty() || others_ended_ < others()) return std::nullopt;
  std::optional<base::MonotonicTime> last;
  for (const auto& [rank, end] : ends_) {
    if (services_.contains(rank)) continue;
    if (end.failed() || !end.at_is_known) return std::nullopt;
    last = std::max(last.value_or(end.at), end.at);
  }
  return last;
}

}  // namespace muster::launcherd::run
