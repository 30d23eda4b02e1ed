// Decides what the stop of a job means: its cause, how long agents may take to confirm it, and the exit code.
//
// A resumed job may be stopped before all its hosts are back. StopPlan keeps that early stop until the ranks can be
// stopped.
//
// Owner: JobRunner's core. A plain value without timers.
#pragma once

#include <chrono>
#include <optional>

#include "launcherd/run/job_runner.h"
#include "model/exit_report.h"

namespace muster::launcherd::inline run {

// Time for agents beyond the grace time, to kill, audit and report.
inline constexpr std::chrono::milliseconds kStopMargin{6'000};
// Additional time if agents wait until GPUs release the memory of the ranks.
inline constexpr std::chrono::milliseconds kGpuMargin{10'000};

class StopPlan {
 public:
  // `early` is a stop that a user requested from an earlier launcherd. kNone if no stop was requested.
  StopPlan(std::chrono::milliseconds grace, StopCause early, bool is_early_at_once)
      : grace_(grace), early_(early), is_early_at_once_(is_early_at_once) {}

  // Keeps a stop until all hosts are back. After a second call, the ranks get no grace time. Returns how long the job
  // may still wait for its hosts. nullopt if the call changes nothing.
  std::optional<std::chrono::milliseconds> keep_early(StopCause cause);
  bool is_early() const { return early_ != StopCause::kNone; }
  StopCause early() const { return early_; }
  bool is_early_at_once() const { return is_early_at_once_; }
  // Returns the grace time of the early stop.
  std::chrono::milliseconds early_grace() const { return is_early_at_once_ ? std::chrono::milliseconds(0) : grace_; }

  // Call this when the stop begins. If it ends the start of a job and an early stop was requested, the early stop is
  // the cause, even if a failure came later.
  void begin(StopCause cause, bool ends_start);
  // Call this when a host has failed. It makes the host the cause of the stop, unless a rank has failed by itself. The
  // ends of the host's ranks may have begun a stop before the host's failure was known.
  void blame_host(bool has_root);
  StopCause cause() const { return cause_; }

  // Returns the time in which agents must confirm a stop with this grace time, and keeps it for limit().
  std::chrono::milliseconds set_limit(std::chrono::milliseconds grace, bool waits_for_gpus);
  std::chrono::milliseconds limit() const { return limit_; }

  // True if the user or the reader of stdout stopped the job. Then nothing waits for the rest of the output of the job.
  bool is_from_outside() const;
  // True if is_from_outside(), or if --timeout stopped the job. Then agents do not wait until GPUs release memory.
  bool cuts_gpu_wait() const { return is_from_outside() || cause_ == StopCause::kTimeout; }
  // `root` is the rank whose failure is the root cause. nullopt if no rank has failed by itself.
  int exit_code(const std::optional<model::RankEnd>& root) const;

 private:
  std::chrono::milliseconds grace_;
  StopCause early_;
  bool is_early_at_once_;
  StopCause cause_ = StopCause::kNone;
  std::chrono::milliseconds limit_{};
};

}  // namespace muster::launcherd::run
