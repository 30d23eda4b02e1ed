// Collects how the ranks of a job ended and decides when the root cause can be named. Plain logic over times that are
// given; no threads.
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

// Exits are collected for this long after the first failure, so that the earliest is named and not the first to arrive.
inline constexpr std::chrono::milliseconds kCollectWindow{300};

class EndCollector {
 public:
  // `services`: ranks that are there for the others (model::Role::is_service). When all others have ended well, they
  // have had their time, and how they end after that is no failure of the job.
  EndCollector(int size, model::OnExit on_exit, std::set<int> services = {})
      : size_(size), on_exit_(on_exit), services_(std::move(services)) {}

  // Each rank once; a second end of the same rank is ignored (its host was lost after it had ended).
  // True: by the job's policy the others must be stopped now.
  bool add(model::RankEnd end, base::MonotonicTime now);

  // Of ranks that were spawned by others; they are numbered beyond all before them.
  void add_ranks(int count) { size_ += count; }
  int size() const { return size_; }

  bool has_ended(int rank) const { return ends_.contains(rank); }
  bool all_ended() const { return static_cast<int>(ends_.size()) == size_; }
  bool any_failed() const { return first_failure_.has_value(); }
  // Only services are left.
  bool only_services_run() const { return !services_.empty() && others_ended_ == others() && !all_ended(); }
  bool is_late(int rank) const { return late_.contains(rank); }  // a service that failed when nobody needed it any more
  // Since the first failure, when the root cause is to be named; nullopt without a failure.
  std::optional<base::MonotonicTime> decision_time() const;

  std::vector<model::RankEnd> ends() const;  // by rank
  // The root cause among what is known so far.
  std::optional<model::RankEnd> root() const;
  int root_index() const;  // into ends(); -1: nothing has failed by itself

 private:
  // When the last of them ended; nullopt: one runs, or has failed.
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
