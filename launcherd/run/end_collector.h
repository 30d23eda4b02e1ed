// Collects how the ranks of a job ended and decides when the root cause can be named.
//
// Owner: JobRunner's core.
// Thread: any single one. It is plain logic on times that the caller passes in.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "model/exit_report.h"
#include "model/job_spec.h"

namespace muster::launcherd::inline run {

// Collect exits for this long after the first failure. The earliest failure is then named, not the first to arrive.
inline constexpr std::chrono::milliseconds kCollectWindow{300};

class EndCollector {
 public:
  // `services` are ranks that serve the other ranks (model::Role::is_service). Once all ranks that are no services have
  // ended well, the end of a service is no failure of the job.
  EndCollector(int size, model::OnExit on_exit, std::set<int> services = {})
      : size_(size), on_exit_(on_exit), services_(std::move(services)) {}

  // Adds the end of a rank. A second end of the same rank is ignored, for example when its host is lost later. Returns
  // true if the job's policy requires that the other ranks are stopped now.
  bool add(model::RankEnd end, base::MonotonicTime now);

  // Adds ranks that other ranks spawned. Their numbers follow the numbers of all earlier ranks.
  void add_ranks(int count) { size_ += count; }
  int size() const { return size_; }

  bool has_ended(int rank) const { return ends_.contains(rank); }
  bool all_ended() const { return static_cast<int>(ends_.size()) == size_; }
  bool any_failed() const { return first_failure_.has_value(); }
  // Returns true if only services still run.
  bool only_services_run() const { return !services_.empty() && others_ended_ == others() && !all_ended(); }
  // Returns true for a service that ended after all other ranks had ended well.
  bool is_late(int rank) const { return late_.contains(rank); }
  // Returns the time at which the root cause must be named. nullopt if no rank has failed.
  std::optional<base::MonotonicTime> decision_time() const;

  std::vector<model::RankEnd> ends() const;  // by rank
  // Returns the root cause among the ends that are known so far.
  std::optional<model::RankEnd> root() const;
  int root_index() const;  // index into ends(); -1 if no rank has failed by itself

 private:
  // Returns when the last of the ranks that are no services ended. nullopt if one of them still runs, has failed, or
  // has no known end time, or if there are no services.
  std::optional<base::MonotonicTime> others_ended_well_at() const;
  int others() const { return size_ - static_cast<int>(services_.size()); }

  int size_;
  model::OnExit on_exit_;
  std::set<int> services_;
  int others_ended_ = 0;
  std::set<int> late_;
  std::map<int, model::RankEnd> ends_;
  std::optional<base::MonotonicTime> first_failure_;
};

}  // namespace muster::launcherd::run
