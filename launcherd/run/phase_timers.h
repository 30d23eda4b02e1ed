// The timers of a job. Each timer belongs to some phases. It runs only in its phases, and is cancelled when the job
// leaves them.
//
// Owner: JobRunner's core.
// Thread: loop thread only.
//
//   PhaseTimers timers(loop, JobPhase::kConnecting);
//   timers.on_enter(JobTimer::kRun, [&] { timers.start(JobTimer::kRun, 5s, [&] { stop(); }); });
//   timers.enter(JobPhase::kLaunching);  // starts kRun
//   timers.enter(JobPhase::kRunning);    // kRun continues
//   timers.enter(JobPhase::kStopping);   // cancels kRun
#pragma once

#include <array>
#include <cstddef>
#include <functional>

#include "base/loop.h"
#include "launcherd/run/job_phase.h"

namespace muster::launcherd::inline run {

enum class JobTimer {
  kStart,      // all hosts must be prepared
  kWaiting,    // a line about hosts that are not up
  kGather,     // other hosts may fail, too, so that all failures are reported together
  kEarlyStop,  // the stop of a resumed job waits for the decision about shares
  kStaged,     // the end of staging, in a new turn of the loop
  kLaunch,     // the next rank must start
  kRun,        // JobSpec::timeout
  kServices,   // services must end by themselves
  kStop,       // agents must confirm that the ranks are gone
  kOutput,     // output of an interrupted job
  kRootCause,  // the root cause is named
  kPeers,      // ends of ranks are sent to peers, in a new turn of the loop
  kProgress,   // progress is reported, in a new turn of the loop or later
  kTick,       // pings are sent
  kSuspend,    // answers to Suspend
  kLive,       // the next decision of a job whose ranks change
  kCount,
};

// Returns whether the timer may run in that phase.
bool belongs_to(JobTimer timer, JobPhase phase);

class PhaseTimers {
 public:
  PhaseTimers(base::Loop& loop, JobPhase first) : loop_(loop), phase_(first) {}

  // Sets the function that starts the timer. enter() calls it when the job enters one of the timer's phases from any
  // other phase.
  void on_enter(JobTimer timer, std::function<void()> start);
  // Call this when the job enters a phase.
  void enter(JobPhase phase);

  // Starts or restarts the timer. Ignored in phases to which it does not belong.
  void start(JobTimer timer, base::Duration delay, base::Loop::Task task);
  void repeat(JobTimer timer, base::Duration period, base::Loop::Task task);
  void cancel(JobTimer timer) { at(timer).timer.cancel(); }
  // True from start() until cancel(), also after the timer has expired.
  bool is_armed(JobTimer timer) const { return entries_[static_cast<std::size_t>(timer)].timer.armed(); }

 private:
  struct Entry {
    base::Timer timer;
    std::function<void()> start;  // empty if only the owner starts the timer
  };
  Entry& at(JobTimer timer) { return entries_[static_cast<std::size_t>(timer)]; }
  bool may_start(JobTimer timer) const { return belongs_to(timer, phase_); }

  base::Loop& loop_;
  JobPhase phase_;
  std::array<Entry, static_cast<std::size_t>(JobTimer::kCount)> entries_;
};

}  // namespace muster::launcherd::run
