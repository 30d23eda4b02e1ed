#include "launcherd/run/generation_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"

namespace muster::launcherd::generation_planner_test {
namespace {

using model::OnFailure;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class GenerationPlannerTest : public testing::Test {
 protected:
  GenerationPlanner planner(OnFailure on_failure, const char* hosts, const char* spares, int max_restarts = 3,
                            int min_ranks = 1, int np = 0) {
    model::JobSpec job;
    job.placement.hosts = *model::parse_host_list(hosts, "-H");
    job.placement.np = np;
    job.max_restarts = max_restarts;
    job.failure.on_failure = on_failure;
    job.failure.min_ranks = min_ranks;
    if (*spares != '\0') job.failure.spares = *model::parse_host_list(spares, "--spares");
    return {job, *model::place(job.placement)};
  }
  // The hosts of the placement with their ranks: "n1:0,1 n3:2,3".
  static std::string table(const base::Result<NextGeneration>& next) {
    if (!next.ok()) return next.status().message();
    std::string text;
    for (const model::PlacedHost& host : next->placement.hosts) {
      std::string ranks;
      for (const model::PlacedRank& rank : host.ranks)
        ranks += fmt::format("{}{}", ranks.empty() ? "" : ",", rank.rank);
      text += fmt::format("{}{}:{}", text.empty() ? "" : " ", host.host.name, ranks);
    }
    return text;
  }
  static GenerationEnd failed_on(const char* host) { return {.bad_hosts = {}, .failed_host = host}; }
  static GenerationEnd lost(std::vector<std::string> hosts) { return {.bad_hosts = std::move(hosts)}; }
};

TEST_F(GenerationPlannerTest, RestartKeepsHostsUntilRestartsAreUsedUp) {
  GenerationPlanner plan = planner(OnFailure::kRestart, "n1:2,n2:2", "", 2);
  EXPECT_EQ(table(plan.next(failed_on("n2"))), "n1:0,1 n2:2,3");
  EXPECT_EQ(table(plan.next(failed_on("n2"))), "n1:0,1 n2:2,3");
  EXPECT_EQ(plan.counted(), 2);
  EXPECT_THAT(table(plan.next(failed_on("n2"))), HasSubstr("2 of 2 restarts are used up"));
}

TEST_F(GenerationPlannerTest, AFailureAfterProgressDoesNotCount) {
  GenerationPlanner plan = planner(OnFailure::kReplace, "n1:1,n2:1", "n3:1", 1);
  for (int i = 0; i < 5; ++i) {
    const auto next = plan.next({.failed_host = "n2", .has_progress = true});
    EXPECT_EQ(table(next), "n1:0 n2:1") << "a host is not at fault if its job gets further each time";
    EXPECT_FALSE(next->is_counted);
  }
  EXPECT_TRUE(plan.next(failed_on("n2"))->is_counted);
  EXPECT_FALSE(plan.next(failed_on("n2")).ok());
}

TEST_F(GenerationPlannerTest, ARestartLeavesEachRankWhereItWas) {
  model::JobSpec job;
  job.placement.hosts = *model::parse_host_list("n1:4,n2:4", "-H");
  job.max_restarts = 1;
  const model::Placement chosen = model::place_as_listed(job.placement.hosts, {0, 0, 1, 1});
  GenerationPlanner plan(job, chosen);
  const auto next = plan.next(failed_on("n1"));
  EXPECT_EQ(table(next), "n1:0,1 n2:2,3");
  EXPECT_TRUE(next->request.hosts.empty());
}

TEST_F(GenerationPlannerTest, ARestartKeepsThePrograms) {
  model::JobSpec job;
  job.placement.hosts = *model::parse_host_list("n1:1,n2:3", "-H");
  job.max_restarts = 1;
  model::Placement first = *model::place(job.placement);
  first.roles = {{"a", 0, 1}, {"b", 1, 3}};
  EXPECT_EQ(GenerationPlanner(job, first).next(failed_on("n1"))->placement.roles, first.roles);
}

TEST_F(GenerationPlannerTest, AHostIsNotItsOwnSpareInOtherCase) {
  GenerationPlanner plan = planner(OnFailure::kReplace, "n1:2,n2:2", "N2:2");
  EXPECT_THAT(table(plan.next(lost({"n2"}))), HasSubstr("no spare host is left"));
}

TEST_F(GenerationPlannerTest, OtherHostsComeWithTheRequestThatPlacesThem) {
  GenerationPlanner plan = planner(OnFailure::kReplace, "n1:2,n2:2", "n3:2");
  const auto next = plan.next(lost({"n2"}));
  EXPECT_EQ(next->request.np, 4);
  ASSERT_EQ(next->request.hosts.size(), 2U);
  EXPECT_EQ(next->request.hosts[1].name, "n3");
}

TEST_F(GenerationPlannerTest, RestartEndsWithALostHost) {
  GenerationPlanner plan = planner(OnFailure::kRestart, "n1:2,n2:2", "");
  EXPECT_THAT(table(plan.next(lost({"n2"}))), HasSubstr("--on-failure replace"));
}

TEST_F(GenerationPlannerTest, ASpareTakesThePlaceOfALostHost) {
  GenerationPlanner plan = planner(OnFailure::kReplace, "n1:2,n2:2", "n3:2,n4:2", 0);
  const auto next = plan.next(lost({"n1"}));
  EXPECT_EQ(table(next), "n3:0,1 n2:2,3");
  EXPECT_THAT(next->added, ElementsAre("n3"));
  EXPECT_THAT(next->lost, ElementsAre("n1"));
  EXPECT_EQ(plan.counted(), 0);
}

TEST_F(GenerationPlannerTest, ASpareWithoutSlotsGetsThoseOfTheHostThatItReplaces) {
  GenerationPlanner plan = planner(OnFailure::kReplace, "n1:1,n2:3", "n3");
  EXPECT_EQ(table(plan.next(lost({"n2"}))), "n1:0 n3:1,2,3");
}

TEST_F(GenerationPlannerTest, SeveralSmallSparesReplaceALargeHost) {
  GenerationPlanner plan = planner(OnFailure::kReplace, "n1:4,n2:4", "n3:2,n4:2");
  EXPECT_EQ(table(plan.next(lost({"n2"}))), "n1:0,1,2,3 n3:4,5 n4:6,7");
}

TEST_F(GenerationPlannerTest, AFailedSpareIsReplacedByTheNext) {
  GenerationPlanner plan = planner(OnFailure::kReplace, "n1:2,n2:2", "n3:2,n4:2", 0);
  EXPECT_EQ(table(plan.next(lost({"n2"}))), "n1:0,1 n3:2,3");
  EXPECT_EQ(table(plan.next(lost({"n3"}))), "n1:0,1 n4:2,3");
  EXPECT_THAT(table(plan.next(lost({"n4"}))), HasSubstr("no spare host is left"));
}

TEST_F(GenerationPlannerTest, ABadSpareThatWasNotUsedYetIsNeverUsed) {
  GenerationPlanner plan = planner(OnFailure::kReplace, "n1:2,n2:2", "n3:2,n4:2");
  EXPECT_EQ(table(plan.next(lost({"n2", "n3"}))), "n1:0,1 n4:2,3");
}

TEST_F(GenerationPlannerTest, UnusedHostsOfTheListAreTheFirstSpares) {
  GenerationPlanner plan = planner(OnFailure::kReplace, "n1:2,n2:2,n3:2", "n4:2", 0, 1, 4);
  EXPECT_EQ(table(plan.next(lost({"n1"}))), "n3:0,1 n2:2,3");
}

TEST_F(GenerationPlannerTest, AHostThatEndsTwoGenerationsInARowIsReplaced) {
  GenerationPlanner plan = planner(OnFailure::kReplace, "n1:1,n2:1", "n3:1");
  EXPECT_EQ(table(plan.next(failed_on("n2"))), "n1:0 n2:1");
  EXPECT_EQ(table(plan.next(failed_on("n2"))), "n1:0 n3:1");
  EXPECT_EQ(plan.counted(), 2);
}

TEST_F(GenerationPlannerTest, FailuresOfDifferentHostsReplaceNone) {
  GenerationPlanner plan = planner(OnFailure::kReplace, "n1:1,n2:1", "n3:1");
  EXPECT_EQ(table(plan.next(failed_on("n2"))), "n1:0 n2:1");
  EXPECT_EQ(table(plan.next(failed_on("n1"))), "n1:0 n2:1");
  EXPECT_EQ(table(plan.next(failed_on("n2"))), "n1:0 n2:1");
}

TEST_F(GenerationPlannerTest, ABadHostStaysIfNothingCanReplaceIt) {
  GenerationPlanner plan = planner(OnFailure::kReplace, "n1:1,n2:1", "");
  EXPECT_EQ(table(plan.next(failed_on("n2"))), "n1:0 n2:1");
  EXPECT_EQ(table(plan.next(failed_on("n2"))), "n1:0 n2:1");
}

TEST_F(GenerationPlannerTest, ShrinkGoesOnWithFewerRanks) {
  GenerationPlanner plan = planner(OnFailure::kShrink, "n1:2,n2:2,n3:2", "", 0, 3);
  const auto next = plan.next(lost({"n2"}));
  EXPECT_EQ(table(next), "n1:0,1 n3:2,3");
  EXPECT_THAT(next->lost, ElementsAre("n2"));
  EXPECT_THAT(next->added, IsEmpty());
  EXPECT_THAT(table(plan.next(lost({"n1"}))), HasSubstr("2 of at least 3 ranks"));
}

TEST_F(GenerationPlannerTest, ShrinkTakesSparesFirst) {
  GenerationPlanner plan = planner(OnFailure::kShrink, "n1:2,n2:2", "n3:2", 0, 2);
  EXPECT_EQ(table(plan.next(lost({"n2"}))), "n1:0,1 n3:2,3");
  EXPECT_EQ(table(plan.next(lost({"n1"}))), "n3:0,1");
  EXPECT_THAT(table(plan.next(lost({"n3"}))), HasSubstr("0 of at least 2"));
}

TEST_F(GenerationPlannerTest, ALostHostsRanksAreNotPutOnTheOthersIfOversubscribed) {
  model::JobSpec job;
  job.placement.hosts = *model::parse_host_list("n1:1,n2:1", "-H");
  job.placement.np = 6;
  job.placement.oversubscribe = true;
  job.failure.on_failure = OnFailure::kReplace;
  GenerationPlanner plan(job, *model::place(job.placement));
  EXPECT_THAT(table(plan.next(lost({"n2"}))), HasSubstr("no spare host is left"));
}

}  // namespace
}  // namespace muster::launcherd::generation_planner_test
