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
  // The hosts that are left out, with the second from which they may be used again: "n2@30 n3".
  static std::string names(const GenerationPlanner& plan) {
    std::string text;
    for (const model::FailedHost& host : plan.failed()) {
      if (!text.empty()) text += ' ';
      text += host.name;
      if (host.usable_from) text += fmt::format("@{}", (*host.usable_from - second(0)) / std::chrono::seconds(1));
    }
    return text;
  }
  static base::WallTime second(int number) { return base::WallTime(std::chrono::seconds(1'000'000 + number)); }
  // A job whose failed hosts may come back after 30 s.
  static GenerationPlanner cooling(OnFailure on_failure, const char* hosts, const char* spares) {
    model::JobSpec job;
    job.placement.hosts = *model::parse_host_list(hosts, "-H");
    job.max_restarts = 9;
    job.failure.on_failure = on_failure;
    job.failure.failed_host_cooldown = std::chrono::seconds(30);
    if (*spares != '\0') job.failure.spares = *model::parse_host_list(spares, "--spares");
    return {job, *model::place(job.placement)};
  }
  static GenerationEnd lost_at(int when, const char* host) {
    return {.bad_hosts = {host}, .at = second(when), .reasons = {{host, "its agent ended"}}};
  }
  static GenerationEnd failed_on(const char* host) { return {.bad_hosts = {}, .failed_host = host}; }
  static GenerationEnd lost(std::vector<std::string> hosts) { return {.bad_hosts = std::move(hosts)}; }
};

TEST_F(GenerationPlannerTest, StartsWithoutHostsThatAreNotUp) {
  GenerationPlanner plan = planner(OnFailure::kFail, "n1:2,n2:2,n3:2", "", 0);
  const auto next = plan.start_without(lost({"n2"}), false);
  EXPECT_EQ(table(next), "n1:0,1 n3:2,3");
  EXPECT_THAT(next->lost, ElementsAre("n2"));
  EXPECT_EQ(plan.counted(), 0);
  EXPECT_EQ(plan.wanted(), 4);
  EXPECT_FALSE(plan.next(lost({"n1"})).ok()) << "the policy is as before";
}

TEST_F(GenerationPlannerTest, StartsWithSparesInThePlacesOfHostsThatAreNotUp) {
  GenerationPlanner plan = planner(OnFailure::kReplace, "n1:2,n2:2,n3:2", "s1:2,s2:4");
  EXPECT_EQ(plan.spares().size(), 2u);
  const auto next = plan.start_without(lost({"n1", "s1"}), true);
  EXPECT_EQ(table(next), "s2:0,1 n2:2,3 n3:4,5");
  EXPECT_EQ(names(plan), "n1 s1");
  // The failed hosts stay out.
  EXPECT_THAT(table(plan.next(lost({"n3"}))), "s2:0,1,2,3 n2:4,5");
}

TEST_F(GenerationPlannerTest, AJobThatShrinksTakesBackWhatItsStartLacked) {
  GenerationPlanner plan = planner(OnFailure::kShrink, "n1:2,n2:2", "");
  EXPECT_EQ(table(plan.start_without(lost({"n2"}), false)), "n1:0,1");
  EXPECT_EQ(plan.wanted(), 4);
}

TEST_F(GenerationPlannerTest, TheSizeOfNpIsKeptAtTheStart) {
  GenerationPlanner plan = planner(OnFailure::kFail, "n1:2,n2:2,n3:2", "", 0, 1, 5);
  EXPECT_THAT(table(plan.start_without(lost({"n2"}), true)),
              HasSubstr("-np 5 needs 5 slots, but the 2 hosts that are up have 4; leave -np out"));
}

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

TEST_F(GenerationPlannerTest, ALargeSpareTakesOnlyTheRanksOfTheHostThatItReplaces) {
  GenerationPlanner plan = planner(OnFailure::kReplace, "n1:2,n2:2", "n3:4");
  EXPECT_EQ(table(plan.next(lost({"n1"}))), "n3:0,1 n2:2,3");
  EXPECT_EQ(table(plan.next(lost({"n2"}))), "n3:0,1,2,3") << "its other slots are used before the job ends";
}

TEST_F(GenerationPlannerTest, FreeSlotsOfAFailedHostAreNotTakenBack) {
  GenerationPlanner plan = planner(OnFailure::kShrink, "n1:2,n2:2", "n3:4");
  ASSERT_EQ(table(plan.next(lost({"n1"}))), "n3:0,1 n2:2,3");
  ASSERT_EQ(table(plan.next(failed_on("n3"))), "n3:0,1 n2:2,3");
  EXPECT_EQ(table(plan.next(failed_on("n3"))), "n2:0,1") << "it has failed twice in a row";
}

TEST_F(GenerationPlannerTest, HostsKeepTheirNumberOfRanks) {
  model::JobSpec job;
  job.placement.hosts = *model::parse_host_list("n1:4,n2:4,n3:4", "-H");
  job.placement.ranks_per_node = 2;
  job.failure.on_failure = OnFailure::kShrink;
  job.failure.spares = *model::parse_host_list("n4:4", "--spares");
  GenerationPlanner plan(job, *model::place(job.placement));
  EXPECT_EQ(table(plan.next(lost({"n1"}))), "n4:0,1 n2:2,3 n3:4,5");
  EXPECT_EQ(table(plan.next(lost({"n3"}))), "n4:0,1 n2:2,3");
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

TEST_F(GenerationPlannerTest, OffersOfAPoolReplaceTheSpares) {
  GenerationPlanner plan = planner(OnFailure::kReplace, "n1:2,n2:2", "n9:2");
  plan.offer(*model::parse_host_list("n1:4,n3:8", "-H"));
  const auto next = plan.next(lost({"n2"}));
  EXPECT_EQ(table(next), "n1:0,1 n3:2,3") << "the job takes as many slots as it lost, and not of its own host first";
  plan.offer(*model::parse_host_list("n2:2", "-H"));
  EXPECT_EQ(plan.next(lost({"n3"})).status().code(), base::Code::kResourceExhausted) << "n2 has failed";
}

TEST_F(GenerationPlannerTest, AResizeTakesTheLastRanksAway) {
  GenerationPlanner plan = planner(OnFailure::kShrink, "n1:2,n2:2,n3:2", "");
  plan.offer({});
  plan.resize(3);
  const auto fewer = plan.next({.is_resize = true});
  EXPECT_EQ(table(fewer), "n1:0,1 n2:2");
  EXPECT_THAT(fewer->lost, ElementsAre("n3"));
  EXPECT_FALSE(fewer->is_counted);
  plan.offer(*model::parse_host_list("n2:1,n4:4", "-H"));
  plan.resize(6);
  const auto more = plan.next({.is_resize = true});
  EXPECT_EQ(table(more), "n1:0,1 n2:2,3 n4:4,5");
  EXPECT_THAT(more->added, ElementsAre("n4"));
}

TEST_F(GenerationPlannerTest, AResizeOfAHostsSlotsAloneIsAChange) {
  GenerationPlanner plan = planner(OnFailure::kReplace, "n1:4", "");
  plan.offer({});
  plan.resize(2);
  EXPECT_EQ(table(plan.next({.is_resize = true})), "n1:0,1");
  plan.offer({});
  plan.resize(4);
  EXPECT_EQ(plan.next({.is_resize = true})->placement.size, 2) << "nothing is free, so it goes on as it is";
  EXPECT_EQ(plan.wanted(), 2) << "a job that replaces hosts does not wait for more later";
}

TEST_F(GenerationPlannerTest, ALaterPlannerGoesOnAsThisOne) {
  GenerationPlanner plan = planner(OnFailure::kShrink, "n1:2,n2:2", "n3:2", 2);
  plan.offer({});
  ASSERT_TRUE(plan.next(lost({"n2"})).ok());
  ASSERT_TRUE(plan.next(failed_on("n1")).ok());
  GenerationPlanner later = planner(OnFailure::kShrink, "n1:2", "", 2);
  later.restore(plan.state());
  EXPECT_EQ(later.counted(), 1);
  EXPECT_EQ(names(later), "n2");
  later.offer(*model::parse_host_list("n2:2,n4:2", "-H"));
  EXPECT_EQ(table(later.next(failed_on("n1"))), "n4:0,1") << "n1 has failed twice in a row, and n2 was lost";
}

TEST_F(GenerationPlannerTest, AFailedHostIsASpareAgainAfterItsCooldown) {
  GenerationPlanner plan = cooling(OnFailure::kReplace, "n1:2,n2:2", "n3:2");
  plan.set_time(second(0));
  EXPECT_EQ(table(plan.next(lost_at(0, "n2"))), "n1:0,1 n3:2,3");
  EXPECT_EQ(names(plan), "n2@30");
  EXPECT_EQ(plan.failed().front().reason, "its agent ended");
  EXPECT_EQ(plan.next_return(), second(30));
  GenerationPlanner early = plan;
  early.set_time(second(29));
  EXPECT_THAT(table(early.next(lost_at(29, "n3"))), HasSubstr("n3 failed and no spare host is left"));
  EXPECT_EQ(names(early), "n2@30 n3@59") << "a plan that fails still names them";
  plan.set_time(second(30));
  EXPECT_EQ(names(plan), "");
  EXPECT_EQ(table(plan.next(lost_at(30, "n3"))), "n1:0,1 n2:2,3");
  EXPECT_EQ(names(plan), "n3@60");
}

TEST_F(GenerationPlannerTest, AHostThatComesBackIsTheLastSpare) {
  GenerationPlanner plan = cooling(OnFailure::kReplace, "n1:1", "n2:1,n3:1");
  EXPECT_EQ(table(plan.next(lost_at(0, "n1"))), "n2:0");
  plan.set_time(second(40));
  EXPECT_EQ(table(plan.next(lost_at(40, "n2"))), "n3:0");
  plan.set_time(second(50));
  EXPECT_EQ(table(plan.next(lost_at(50, "n3"))), "n1:0");
}

TEST_F(GenerationPlannerTest, ASmallerJobTakesItsHostBack) {
  GenerationPlanner plan = cooling(OnFailure::kShrink, "n1:2,n2:2", "");
  EXPECT_EQ(table(plan.next(lost_at(0, "n1"))), "n2:0,1");
  plan.set_time(second(31));
  EXPECT_EQ(table(plan.next(failed_on("n2"))), "n2:0,1 n1:2,3") << "with all the slots that it had";
}

TEST_F(GenerationPlannerTest, AHostWithSlotsLeftComesBackWithAll) {
  GenerationPlanner plan = cooling(OnFailure::kReplace, "n1:2", "n2:5,n3:2");
  EXPECT_EQ(table(plan.next(lost_at(0, "n1"))), "n2:0,1");
  EXPECT_EQ(table(plan.next(lost_at(1, "n2"))), "n3:0,1");
  plan.resize(4);
  plan.set_time(second(31));
  EXPECT_EQ(table(plan.next({.is_resize = true})), "n3:0,1 n1:2,3");
  plan.resize(8);
  EXPECT_EQ(table(plan.next({.is_resize = true})), "n3:0,1 n1:2,3 n2:4,5,6,7");
}

TEST_F(GenerationPlannerTest, ACooldownOfAHostThatWasNotSearchedIsNeverShorterThanTheLease) {
  model::JobSpec job;
  job.placement.hosts = *model::parse_host_list("n1:1", "-H");
  job.failure.on_failure = OnFailure::kReplace;
  job.failure.failed_host_cooldown = std::chrono::seconds(1);
  job.failure.spares = *model::parse_host_list("n2:1", "--spares");
  GenerationPlanner plan(job, *model::place(job.placement));
  GenerationPlanner searched = plan;
  GenerationEnd end = lost_at(0, "n1");
  ASSERT_TRUE(searched.next(end).ok());
  EXPECT_EQ(names(searched), "n1@1");
  GenerationPlanner left = plan;
  end.never_back = {"n1"};
  ASSERT_TRUE(left.next(end).ok());
  EXPECT_EQ(names(left), "n1") << "processes of the job are left there";
  end.never_back.clear();
  end.unsearched = {"n1"};
  ASSERT_TRUE(plan.next(end).ok());
  EXPECT_EQ(names(plan), "n1@15") << "until then, its ranks may live on";
}

TEST_F(GenerationPlannerTest, AHostOfAPoolComesBackWhileTheJobWaits) {
  GenerationPlanner plan = cooling(OnFailure::kReplace, "n1:1,n2:1", "");
  const GenerationEnd end = lost_at(0, "n2");
  GenerationPlanner early = plan;
  early.set_time(second(10));
  early.offer(*model::parse_host_list("n2:1", "-H"));
  EXPECT_EQ(early.next(end).status().code(), base::Code::kResourceExhausted);
  EXPECT_EQ(early.next_return(), second(30)) << "counted from the end of the generation, not from now";
  plan.set_time(second(30));
  plan.offer(*model::parse_host_list("n2:1", "-H"));
  EXPECT_EQ(table(plan.next(end)), "n1:0 n2:1");
  EXPECT_EQ(names(plan), "");
}

}  // namespace
}  // namespace muster::launcherd::generation_planner_test
