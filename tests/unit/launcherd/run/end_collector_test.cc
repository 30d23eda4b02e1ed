#include "launcherd/run/end_collector.h"

#include <gtest/gtest.h>

namespace muster::launcherd::end_collector_test {
namespace {

using std::chrono::milliseconds;

const base::MonotonicTime kStart{std::chrono::hours(1)};

model::RankEnd exited(int rank, int code, milliseconds at) {
  model::RankEnd end;
  end.rank = rank;
  end.host = "n1";
  end.exit_code = code;
  end.at = kStart + at;
  return end;
}

TEST(EndCollector, NonzeroStopsTheOthersZeroDoesNot) {
  EndCollector ends(3, model::OnExit::kNonzeroKill);
  EXPECT_FALSE(ends.add(exited(0, 0, milliseconds(0)), kStart));
  EXPECT_FALSE(ends.any_failed());
  EXPECT_TRUE(ends.add(exited(1, 4, milliseconds(5)), kStart + milliseconds(7)));
  EXPECT_EQ(ends.decision_time(), kStart + milliseconds(307));
  EXPECT_FALSE(ends.all_ended());
  EXPECT_TRUE(ends.add(exited(2, 1, milliseconds(3)), kStart + milliseconds(9)));
  EXPECT_TRUE(ends.all_ended());
  EXPECT_EQ(ends.root()->rank, 2);  // arrived later, ended earlier
}

TEST(EndCollector, AnyKillStopsAtTheFirstEnd) {
  EndCollector ends(2, model::OnExit::kAnyKill);
  EXPECT_TRUE(ends.add(exited(1, 0, milliseconds(0)), kStart));
  EXPECT_EQ(ends.root(), std::nullopt);
}

TEST(EndCollector, WaitNeverStops) {
  EndCollector ends(2, model::OnExit::kWait);
  EXPECT_FALSE(ends.add(exited(1, 3, milliseconds(0)), kStart));
  EXPECT_FALSE(ends.add(exited(0, 0, milliseconds(9)), kStart));
  EXPECT_EQ(ends.root()->exit_code, 3);
}

TEST(EndCollector, AnMpiAbortEndsTheJobWhateverThePolicy) {
  for (const auto policy : {model::OnExit::kWait, model::OnExit::kNonzeroKill, model::OnExit::kAnyKill}) {
    EndCollector ends(2, policy);
    model::RankEnd aborted = exited(1, 13, milliseconds(0));
    aborted.abort_code = 13;
    EXPECT_TRUE(ends.add(aborted, kStart));
    EXPECT_EQ(ends.root()->status(), 13);
  }
}

TEST(EndCollector, ARankStoppedByMusterIsNoFailure) {
  EndCollector ends(2, model::OnExit::kNonzeroKill);
  model::RankEnd stopped = exited(0, 0, milliseconds(0));
  stopped.kind = model::EndKind::kStopped;
  stopped.signal = 15;
  EXPECT_FALSE(ends.add(stopped, kStart));
  EXPECT_EQ(ends.decision_time(), std::nullopt);
  EXPECT_EQ(ends.root(), std::nullopt);
}

TEST(EndCollector, ARankEndsOnce) {
  EndCollector ends(2, model::OnExit::kNonzeroKill);
  EXPECT_FALSE(ends.add(exited(0, 0, milliseconds(0)), kStart));
  model::RankEnd lost = exited(0, 0, milliseconds(50));
  lost.kind = model::EndKind::kHostLost;
  EXPECT_FALSE(ends.add(lost, kStart));
  EXPECT_TRUE(ends.has_ended(0));
  EXPECT_FALSE(ends.has_ended(1));
  EXPECT_EQ(ends.ends().size(), 1u);
  EXPECT_FALSE(ends.any_failed());
}

// Rank 0 is there for ranks 1 and 2.
TEST(EndCollector, AServiceHasHadItsTimeWhenTheOthersHaveEnded) {
  EndCollector ends(3, model::OnExit::kNonzeroKill, {0});
  EXPECT_FALSE(ends.add(exited(1, 0, milliseconds(0)), kStart));
  EXPECT_FALSE(ends.only_services_run());
  EXPECT_FALSE(ends.add(exited(2, 0, milliseconds(1)), kStart));
  EXPECT_TRUE(ends.only_services_run());
  EXPECT_FALSE(ends.add(exited(0, 3, milliseconds(2)), kStart));
  EXPECT_TRUE(ends.is_late(0));
  EXPECT_TRUE(ends.all_ended());
  EXPECT_FALSE(ends.only_services_run());
  EXPECT_EQ(ends.root(), std::nullopt);
  EXPECT_EQ(ends.decision_time(), std::nullopt);
}

TEST(EndCollector, AServiceThatIsNeededFailsTheJob) {
  EndCollector ends(2, model::OnExit::kNonzeroKill, {0});
  EXPECT_TRUE(ends.add(exited(0, 3, milliseconds(0)), kStart));
  EXPECT_FALSE(ends.is_late(0));
  EXPECT_EQ(ends.root()->rank, 0);
}

// On two hosts: the service's message was the faster one.
TEST(EndCollector, LateFailureIsNoFailureInAnyOrderOfMessages) {
  EndCollector ends(3, model::OnExit::kNonzeroKill, {0});
  EXPECT_FALSE(ends.add(exited(1, 0, milliseconds(1)), kStart));
  EXPECT_TRUE(ends.add(exited(0, 3, milliseconds(9)), kStart));
  EXPECT_EQ(ends.root()->rank, 0);
  EXPECT_FALSE(ends.add(exited(2, 0, milliseconds(8)), kStart));
  EXPECT_EQ(ends.root(), std::nullopt);
}

TEST(EndCollector, ATimeThatIsNotKnownExcusesNobody) {
  EndCollector ends(2, model::OnExit::kNonzeroKill, {0});
  model::RankEnd service = exited(0, 3, milliseconds(9));
  service.at_is_known = false;
  EXPECT_TRUE(ends.add(service, kStart));
  EXPECT_FALSE(ends.add(exited(1, 0, milliseconds(8)), kStart));
  EXPECT_EQ(ends.root()->rank, 0);
}

TEST(EndCollector, AServiceThatFailsBeforeTheOthersEndIsAFailure) {
  EndCollector ends(2, model::OnExit::kNonzeroKill, {0});
  EXPECT_TRUE(ends.add(exited(0, 3, milliseconds(7)), kStart));
  EXPECT_FALSE(ends.add(exited(1, 0, milliseconds(8)), kStart));
  EXPECT_EQ(ends.root()->rank, 0);
}

TEST(EndCollector, AServiceBehindAFailureIsAConsequence) {
  EndCollector ends(2, model::OnExit::kNonzeroKill, {0});
  EXPECT_TRUE(ends.add(exited(1, 5, milliseconds(0)), kStart));
  EXPECT_TRUE(ends.add(exited(0, 3, milliseconds(2)), kStart));
  EXPECT_FALSE(ends.is_late(0));
  EXPECT_EQ(ends.root()->rank, 1);
}

TEST(EndCollector, AServiceThatEndsWellDoesNotEndTheJob) {
  EndCollector ends(2, model::OnExit::kAnyKill, {0});
  EXPECT_FALSE(ends.add(exited(0, 0, milliseconds(0)), kStart));
  EXPECT_TRUE(ends.add(exited(1, 0, milliseconds(1)), kStart));
}

}  // namespace
}  // namespace muster::launcherd::end_collector_test
