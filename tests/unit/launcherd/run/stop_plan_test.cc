#include "launcherd/run/stop_plan.h"

#include <chrono>

#include <gtest/gtest.h>

#include "model/exit_code.h"

namespace muster::launcherd::stop_plan_test {
namespace {

using namespace std::chrono_literals;

model::RankEnd failed_rank() {
  model::RankEnd end;
  end.kind = model::EndKind::kExited;
  end.exit_code = 7;
  return end;
}

TEST(StopPlan, KeepsTheFirstEarlyStopAndASecondOneStopsAtOnce) {
  StopPlan plan(60s, StopCause::kNone, false);
  EXPECT_FALSE(plan.is_early());
  EXPECT_EQ(plan.keep_early(StopCause::kTerminate), 60s + kStopMargin);
  EXPECT_EQ(plan.early_grace(), 60s);
  EXPECT_EQ(plan.keep_early(StopCause::kTimeout), kStopMargin);
  EXPECT_EQ(plan.early(), StopCause::kTerminate);
  EXPECT_TRUE(plan.is_early_at_once());
  EXPECT_EQ(plan.early_grace(), 0s);
  EXPECT_EQ(plan.keep_early(StopCause::kTerminate), std::nullopt);
}

TEST(StopPlan, AnEarlyStopIsTheCauseOnlyIfTheStartEnds) {
  StopPlan plan(60s, StopCause::kTerminate, false);
  plan.begin(StopCause::kHostFailed, true);
  EXPECT_EQ(plan.cause(), StopCause::kTerminate);
  plan.begin(StopCause::kHostFailed, false);
  EXPECT_EQ(plan.cause(), StopCause::kHostFailed);
}

TEST(StopPlan, BlamesAHostForAPolicyStopWithoutARootCause) {
  StopPlan plan(60s, StopCause::kNone, false);
  plan.begin(StopCause::kPolicy, false);
  plan.blame_host(true);
  EXPECT_EQ(plan.cause(), StopCause::kPolicy);
  plan.blame_host(false);
  EXPECT_EQ(plan.cause(), StopCause::kHostFailed);
  plan.begin(StopCause::kInterrupt, false);
  plan.blame_host(false);
  EXPECT_EQ(plan.cause(), StopCause::kInterrupt);
}

TEST(StopPlan, LimitCountsTheGraceTimeTheMarginAndTheWaitForGpus) {
  StopPlan plan(60s, StopCause::kNone, false);
  EXPECT_EQ(plan.set_limit(5s, false), 5s + kStopMargin);
  EXPECT_EQ(plan.set_limit(0s, true), kStopMargin + kGpuMargin);
  EXPECT_EQ(plan.limit(), kStopMargin + kGpuMargin);
}

TEST(StopPlan, ExitCodeIsOfTheCauseOrElseOfTheRoot) {
  const auto code = [](StopCause cause) {
    StopPlan plan(60s, StopCause::kNone, false);
    plan.begin(cause, false);
    return plan.exit_code(failed_rank());
  };
  EXPECT_EQ(code(StopCause::kNone), 7);
  EXPECT_EQ(code(StopCause::kPolicy), 7);
  EXPECT_EQ(code(StopCause::kHangup), model::kHungUp);
  EXPECT_EQ(code(StopCause::kInterrupt), model::kInterrupted);
  EXPECT_EQ(code(StopCause::kTerminate), model::kTerminated);
  EXPECT_EQ(code(StopCause::kTimeout), model::kTimedOut);
  EXPECT_EQ(code(StopCause::kStdoutClosed), model::kStdoutClosed);
  EXPECT_EQ(code(StopCause::kHostFailed), model::kMusterFailed);
  EXPECT_EQ(code(StopCause::kOutputFailed), model::kMusterFailed);
  EXPECT_EQ(code(StopCause::kRefused), model::kUsageError);
  EXPECT_EQ(code(StopCause::kHung), 7);
  StopPlan hung(60s, StopCause::kNone, false);
  hung.begin(StopCause::kHung, false);
  EXPECT_EQ(hung.exit_code(std::nullopt), model::kTimedOut);
  EXPECT_EQ(StopPlan(60s, StopCause::kNone, false).exit_code(std::nullopt), 0);
}

TEST(StopPlan, OnlyTheUserCutsTheWaitForGpus) {
  const auto plan = [](StopCause cause) {
    StopPlan made(60s, StopCause::kNone, false);
    made.begin(cause, false);
    return made;
  };
  for (const StopCause cause :
       {StopCause::kHangup, StopCause::kInterrupt, StopCause::kTerminate, StopCause::kStdoutClosed}) {
    EXPECT_TRUE(plan(cause).is_from_outside());
    EXPECT_TRUE(plan(cause).cuts_gpu_wait());
  }
  EXPECT_FALSE(plan(StopCause::kTimeout).is_from_outside());
  EXPECT_TRUE(plan(StopCause::kTimeout).cuts_gpu_wait());
  for (const StopCause cause : {StopCause::kPolicy, StopCause::kHostFailed, StopCause::kOutputFailed}) {
    EXPECT_FALSE(plan(cause).cuts_gpu_wait());
  }
}

}  // namespace
}  // namespace muster::launcherd::stop_plan_test
