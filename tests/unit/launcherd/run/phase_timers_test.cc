#include "launcherd/run/phase_timers.h"

#include <chrono>
#include <vector>

#include <gtest/gtest.h>

namespace muster::launcherd::phase_timers_test {
namespace {

using namespace std::chrono_literals;

std::vector<JobPhase> phases_of(JobTimer timer) {
  std::vector<JobPhase> phases;
  for (const JobPhase phase : all_job_phases()) {
    if (belongs_to(timer, phase)) phases.push_back(phase);
  }
  return phases;
}

TEST(PhaseTimers, EachTimerBelongsToItsPhases) {
  using enum JobPhase;
  using Phases = std::vector<JobPhase>;
  EXPECT_EQ(phases_of(JobTimer::kStart), (Phases{kConnecting, kPreparing}));
  EXPECT_EQ(phases_of(JobTimer::kGather), (Phases{kConnecting, kPreparing}));
  EXPECT_EQ(phases_of(JobTimer::kEarlyStop), (Phases{kSharing}));
  EXPECT_EQ(phases_of(JobTimer::kStaged), (Phases{kStaging}));
  EXPECT_EQ(phases_of(JobTimer::kLaunch), (Phases{kLaunching}));
  EXPECT_EQ(phases_of(JobTimer::kRun), (Phases{kLaunching, kRunning}));
  EXPECT_EQ(phases_of(JobTimer::kServices),
            (Phases{kConnecting, kPreparing, kStaging, kSharing, kLaunching, kRunning}));
  EXPECT_EQ(phases_of(JobTimer::kStop), (Phases{kStopping, kKilling}));
  for (const JobTimer timer : {JobTimer::kOutput, JobTimer::kRootCause, JobTimer::kPeers, JobTimer::kProgress,
                               JobTimer::kTick, JobTimer::kSuspend}) {
    EXPECT_EQ(phases_of(timer).size(), all_job_phases().size() - 1);
    EXPECT_FALSE(belongs_to(timer, kFinished));
  }
}

TEST(PhaseTimers, StartsOnEnterAndCancelsOnLeave) {
  base::Loop loop;
  PhaseTimers timers(loop, JobPhase::kConnecting);
  int starts = 0;
  timers.on_enter(JobTimer::kRun, [&] {
    ++starts;
    timers.start(JobTimer::kRun, 1h, [] {});
  });
  timers.enter(JobPhase::kSharing);
  EXPECT_EQ(starts, 0);
  timers.enter(JobPhase::kLaunching);
  EXPECT_EQ(starts, 1);
  timers.enter(JobPhase::kRunning);  // the timer belongs to both phases and runs on
  EXPECT_EQ(starts, 1);
  EXPECT_TRUE(timers.is_armed(JobTimer::kRun));
  timers.enter(JobPhase::kStopping);
  EXPECT_FALSE(timers.is_armed(JobTimer::kRun));
}

TEST(PhaseTimers, IgnoresStartInPhasesOfOtherTimers) {
  base::Loop loop;
  PhaseTimers timers(loop, JobPhase::kConnecting);
  timers.start(JobTimer::kStop, 1h, [] {});
  EXPECT_FALSE(timers.is_armed(JobTimer::kStop));
  timers.enter(JobPhase::kFinished);
  timers.repeat(JobTimer::kTick, 1h, [] {});
  EXPECT_FALSE(timers.is_armed(JobTimer::kTick));
}

TEST(PhaseTimers, CallsTheTaskOnceOrRepeatedlyUntilCancelled) {
  base::Loop loop;
  PhaseTimers timers(loop, JobPhase::kConnecting);
  int ticks = 0;
  int once = 0;
  timers.start(JobTimer::kGather, 1ms, [&] { ++once; });
  timers.repeat(JobTimer::kTick, 2ms, [&] {
    if (++ticks < 3) return;
    timers.cancel(JobTimer::kTick);
    loop.stop();
  });
  loop.run();
  EXPECT_EQ(ticks, 3);
  EXPECT_EQ(once, 1);
  EXPECT_TRUE(timers.is_armed(JobTimer::kGather));  // until it is cancelled
  EXPECT_FALSE(timers.is_armed(JobTimer::kTick));
}

}  // namespace
}  // namespace muster::launcherd::phase_timers_test
