// Collects how the ranks of a job ended and decides when the root cause can be named. Plain logic over times that are
// given; no threads.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "model/exit_report.h"
#include "model/job_spec.h"

namespace muster::launcherd {

// Exits are collected for this long after the first failure, so that the earliest is named and not the first to arrive.
inline constexpr std::chrono::milliseconds kCollectWindow{300};

class EndCollector {
 public:
  EndCollector(int size, model::OnExit on_exit) : size_(size), on_exit_(on_exit) {}

  // Each rank once; a second end of the same rank is ignored (its host was lost after it had ended).
  // True: by the job's policy the others must be stopped now.
  bool add(model::RankEnd end, base::MonotonicTime now);

  bool has_ended(int rank) const { return ends_.contains(rank); }
  bool all_ended() const { return static_cast<int>(ends_.size()) == size_; }
  bool any_failed() const { return first_failure_.has_value(); }
  // Since the first failure, when the root cause is to be named; nullopt without a failure.
  std::optional<base::MonotonicTime> decision_time() const;

  std::vector<model::RankEnd> ends() const;  // by rank
  // The root cause among what is known so far.
  std::optional<model::RankEnd> root() const;

 private:
  int size_;
  model::OnExit on_exit_;
  std::map<int, model::RankEnd> ends_;
  std::optional<base::MonotonicTime> first_failure_;
};

}  // namespace muster::launcherd
