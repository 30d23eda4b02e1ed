#include "launcherd/queue/slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcherd/queue/fit.h"
#include "launcherd/queue/job_need.h"
#include "launcherd/queue/why_not.h"

namespace muster::launcherd::slots_test {
namespace {

using ::testing::HasSubstr;

SlotHost host(const std::string& name, int slots, int used = 0, bool is_drained = false) {
  return {.host = {.name = name, .slots = slots}, .slots = slots, .used = used, .is_drained = is_drained};
}

model::JobSpec job_of(int np, std::vector<model::HostSpec> hosts = {}) {
  model::JobSpec job;
  job.placement.np = np;
  job.placement.hosts = std::move(hosts);
  return job;
}

std::string shown(const std::optional<model::Placement>& placement) {
  if (!placement) return "none";
  std::string text;
  for (const model::PlacedHost& placed : placement->hosts) {
    text += fmt::format("{}{}:", text.empty() ? "" : " ", placed.host.name);
    for (const model::PlacedRank& rank : placed.ranks)
      text += fmt::format("{}{}", text.ends_with(':') ? "" : ",", rank.rank);
  }
  return text;
}

std::string fitted(const model::JobSpec& job, const std::vector<SlotHost>& hosts) {
  const auto need = need_of(job, hosts);
  return need.ok() ? shown(fit(*need, hosts)) : need.status().message();
}

TEST(Slots, RanksFillWhatIsFree) {
  const std::vector<SlotHost> hosts = {host("n1", 4, 3), host("n2", 4, 4), host("n3", 4)};
  EXPECT_EQ(fitted(job_of(3), hosts), "n1:0 n3:1,2");
  EXPECT_EQ(fitted(job_of(6), hosts), "none");
  EXPECT_EQ(fitted(job_of(0), hosts), "n1:0");  // without a number the job gets one rank
}

TEST(Slots, ADrainedHostTakesNothing) {
  const std::vector<SlotHost> hosts = {host("n1", 4, 0, true), host("n2", 4)};
  EXPECT_EQ(fitted(job_of(4), hosts), "n2:0,1,2,3");
  EXPECT_EQ(fitted(job_of(5), hosts), "none");
}

SlotHost unreported(const std::string& name) {
  SlotHost unreported = host(name, 1);
  unreported.source = SlotSource::kAwaited;
  return unreported;
}

TEST(Slots, AHostThatIsAskedForItsGpusTakesNothing) {
  const std::vector<SlotHost> hosts = {unreported("n1"), host("n2", 2)};
  EXPECT_EQ(fitted(job_of(2), hosts), "n2:0,1");
  EXPECT_EQ(fitted(job_of(3), hosts), "none");  // it may run once the host is known
  EXPECT_EQ(why_not(*need_of(job_of(3), hosts), hosts),
            "needs 3 slots, 2 are free on n1 and n2; n1 has not reported its GPUs yet");
  model::JobSpec placed = job_of(1);
  placed.places = {{.rank = 0, .host = "n1"}};
  EXPECT_EQ(why_not(*need_of(placed, hosts), hosts), "needs 1 slot on n1, which has not reported its GPUs yet");
}

TEST(Slots, WhoIsRefusedReadsWhichHostsAreNotCounted) {
  std::vector<SlotHost> hosts = {unreported("n1"), host("n2", 2)};
  const std::string text =
      "spec.size: the job needs 4 slots, but n1 and n2 together have only 3 for it: ask for fewer, "
      "or set oversubscribe (--oversubscribe); n1 counts as one slot, because its GPUs are unknown (muster hosts shows "
      "the reason)";
  EXPECT_EQ(fitted(job_of(4), hosts), text);
  hosts[0].source = SlotSource::kUnknown;
  EXPECT_EQ(fitted(job_of(4), hosts), text);
  EXPECT_EQ(fitted(job_of(3), hosts), "n1:0 n2:1,2");  // an unknown host counts as one slot
}

TEST(Slots, WhatDependsOnHostsThatAreAsked) {
  const std::vector<SlotHost> hosts = {unreported("n1"), host("n2", 2)};
  EXPECT_FALSE(depends_on_counts(job_of(3), hosts));  // it can run in any case
  EXPECT_TRUE(depends_on_counts(job_of(4), hosts));
  EXPECT_FALSE(depends_on_counts(job_of(4, {{.name = "n2"}}), hosts));
  EXPECT_FALSE(depends_on_counts(job_of(4, {{.name = "n9"}}), hosts));  // refused in any case
  // As many ranks as slots.
  EXPECT_TRUE(depends_on_counts(job_of(0, {{.name = "n1"}, {.name = "n2"}}), hosts));
  EXPECT_FALSE(depends_on_counts(job_of(0, {{.name = "n1", .slots = 1}, {.name = "n2"}}), hosts));
  EXPECT_FALSE(depends_on_counts(job_of(0), hosts));
}

TEST(Slots, HostsThatAreNamedAreTheOnlyOnes) {
  const std::vector<SlotHost> hosts = {host("n1", 4), host("n2", 4), host("n3", 4)};
  EXPECT_EQ(fitted(job_of(0, {{.name = "n2"}}), hosts), "n2:0,1,2,3");
  EXPECT_EQ(fitted(job_of(3, {{.name = "n3", .slots = 2}, {.name = "n1"}}), hosts), "n3:0,1 n1:2");
  EXPECT_THAT(fitted(job_of(1, {{.name = "n9"}}), hosts), HasSubstr("n9 is not one of launcherd's hosts"));
}

TEST(Slots, RanksPerHostBoundsEveryHost) {
  const std::vector<SlotHost> hosts = {host("n1", 4), host("n2", 4)};
  model::JobSpec job = job_of(0);
  job.placement.ranks_per_node = 2;
  EXPECT_EQ(fitted(job, hosts), "n1:0,1 n2:2,3");
  job.placement.np = 3;
  EXPECT_EQ(fitted(job, hosts), "n1:0,1 n2:2");
  job.placement.np = 5;
  EXPECT_THAT(fitted(job, hosts), HasSubstr("the job needs 5 slots, but n1 and n2 together have only 4 for it"));
}

TEST(Slots, RanksThatLiveOnTakeTheSlotsOfTheirHosts) {
  const std::vector<SlotHost> hosts = {host("n1", 4), host("n2", 4)};
  model::JobSpec job = job_of(0);
  job.live = model::ElasticSpec{.min_ranks = 2};
  EXPECT_EQ(fitted(job, hosts), "n1:0,1");
  job.placement.hosts = {{.name = "n2"}};
  EXPECT_EQ(fitted(job, hosts), "n2:0,1,2,3");
  job.live->max_ranks = 3;
  EXPECT_EQ(fitted(job, hosts), "n2:0,1,2");
  job.live->min_ranks = job.live->max_ranks.emplace(5);
  EXPECT_EQ(fitted(job, hosts), "spec.size: 4 ranks are fewer than min_ranks 5: name more hosts or slots");
}

TEST(Slots, MoreThanThereIsIsRefused) {
  const std::vector<SlotHost> hosts = {host("n1", 4, 4), host("n2", 4, 0, true)};
  EXPECT_TRUE(need_of(job_of(8), hosts).ok());  // it can wait
  const auto refused = need_of(job_of(9), hosts);
  EXPECT_EQ(refused.status().code(), base::Code::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("oversubscribe"));
}

TEST(Slots, WhatNamesNoHostWaitsForHostsThatMayCome) {
  const auto need = need_of(job_of(3), {}, true);
  ASSERT_TRUE(need.ok()) << need.status();
  EXPECT_FALSE(fit(*need, {}).has_value());
  const std::vector<SlotHost> hosts = {host("n1", 4)};
  EXPECT_EQ(shown(fit(*need, hosts)), "n1:0,1,2");
  EXPECT_FALSE(need_of(job_of(5, {{.name = "n1"}}), hosts, true).ok()) << "it names its hosts, which have fewer";
}

TEST(Slots, WhoOversubscribesTakesAllSlots) {
  model::JobSpec job = job_of(6);
  job.placement.oversubscribe = true;
  EXPECT_EQ(fitted(job, {host("n1", 2), host("n2", 2)}), "n1:0,1,2 n2:3,4,5");
  EXPECT_EQ(fitted(job, {host("n1", 2, 1), host("n2", 2)}), "none");
  std::vector<SlotHost> hosts = {host("n1", 2), host("n2", 2)};
  acquire_slots(*fit(*need_of(job, hosts), hosts), hosts);
  EXPECT_EQ(hosts[0].used, 2);
  EXPECT_EQ(hosts[1].free(), 0);
  EXPECT_EQ(fitted(job, {host("n1", 4), host("n2", 4, 1)}), "n1:0,1,2,3 n2:4,5");  // it fits without oversubscription
}

TEST(Slots, PlacedRanksRunWhereTheyWerePlaced) {
  model::JobSpec job = job_of(3, {{.name = "n1"}, {.name = "n2"}});
  job.places = {{.rank = 0, .host = "n2"}, {.rank = 1, .host = "n1"}, {.rank = 2, .host = "n2"}};
  EXPECT_EQ(fitted(job, {host("n1", 1), host("n2", 2)}), "n2:0,2 n1:1");
  EXPECT_EQ(fitted(job, {host("n1", 1), host("n2", 2, 1)}), "none");
  EXPECT_THAT(fitted(job, {host("n1", 1), host("n2", 1)}), HasSubstr("needs 2 slots on n2, 1 is free there"));
}

TEST(Slots, WhatWasTakenComesBack) {
  std::vector<SlotHost> hosts = {host("n1", 4, 1), host("n2", 4)};
  const auto placement = *fit(*need_of(job_of(5), hosts), hosts);
  acquire_slots(placement, hosts);
  EXPECT_EQ(hosts[0].used, 4);
  EXPECT_EQ(hosts[1].used, 2);
  release_slots(placement, hosts);
  EXPECT_EQ(hosts[0].used, 1);
  EXPECT_EQ(hosts[1].used, 0);
}

TEST(Slots, HostsAreFoundInAnyOrderAndUnknownOnesAreLeftOut) {
  std::vector<SlotHost> hosts = {host("n1", 4), host("n2", 4), host("n3", 4)};
  const auto placement =
      model::place_as_listed({{.name = "n3"}, {.name = "n9"}, {.name = "n1"}}, {0, 1, 2, 2, 2, 2, 2});
  acquire_slots(placement, hosts);
  EXPECT_EQ(hosts[0].used, 4);  // at most the slots of the host
  EXPECT_EQ(hosts[1].used, 0);
  EXPECT_EQ(hosts[2].used, 1);
  release_slots(placement, hosts);
  for (const SlotHost& each : hosts) EXPECT_EQ(each.used, 0) << each.host.name;
}

// The job's list may name a host that launcherd no longer has, and repeat a name.
TEST(Slots, WhoWasLetInAsksForTheSameWithAnotherList) {
  const model::JobSpec job =
      job_of(0, {{.name = "n1", .slots = 1}, {.name = "gone", .slots = 1}, {.name = "n1", .slots = 2}});
  const JobNeed need = need_of(job, 4);
  EXPECT_EQ(why_not(need, std::vector{host("n1", 4)}), "needs host gone, which is no longer in launcherd's list");
  EXPECT_EQ(shown(fit(need, std::vector{host("gone", 1), host("n1", 4)})), "n1:0,1,2 gone:3");
}

TEST(Slots, TheReasonIsASentence) {
  const std::vector<SlotHost> three = {host("n1", 8, 4), host("n2", 8, 4), host("n3", 8, 4)};
  const auto need = need_of(job_of(16), three);
  EXPECT_EQ(why_not(*need, three), "needs 16 slots, 12 are free on n1..n3");
  const std::vector<SlotHost> drained = {host("n1", 8, 7), host("n2", 8, 0, true)};
  EXPECT_EQ(why_not(*need_of(job_of(2), drained), drained), "needs 2 slots, 1 is free on n1 and n2; n2 is drained");
  const std::vector<SlotHost> gone = {host("n2", 8)};
  EXPECT_THAT(why_not(*need_of(job_of(1, {{.name = "n1"}}), three), gone), HasSubstr("needs host n1, which"));
}

}  // namespace
}  // namespace muster::launcherd::slots_test
