#include "launcherd/daemon/live_slots.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcherd::live_slots_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

using Counts = std::map<std::string, int>;

model::Placement placement(const std::vector<std::pair<std::string, int>>& hosts) {
  model::Placement made;
  for (const auto& [name, ranks] : hosts) {
    model::PlacedHost& placed = made.hosts.emplace_back();
    placed.host.name = name;
    placed.slots = 4;
    for (int i = 0; i < ranks; ++i) placed.ranks.push_back({.rank = made.size++});
  }
  return made;
}

model::HostSpec host(const std::string& name, int slots) {
  return {.name = name, .slots = slots};
}

Counts listed(const LiveSlots& slots) {
  Counts counts;
  for (const model::HostSpec& each : slots.listed()) counts[each.name] = *each.slots;
  return counts;
}

Counts held(const LiveSlots& slots) {
  Counts counts;
  for (const model::PlacedHost& each : slots.held().hosts) {
    counts[each.host.name] = static_cast<int>(each.ranks.size());
  }
  return counts;
}

LiveHost with(const std::string& name, int processes) {
  return {.name = name, .processes = processes, .has_agent = true};
}

TEST(LiveSlots, HoldsWhatItLists) {
  const LiveSlots slots(placement({{"n1", 2}, {"n2", 1}}), false);
  EXPECT_EQ(slots.size(), 3);
  EXPECT_EQ(slots.listed_on("n1"), 2);
  EXPECT_EQ(slots.listed_on("n3"), 0);
  EXPECT_THAT(listed(slots), ElementsAre(Pair("n1", 2), Pair("n2", 1)));
  EXPECT_EQ(held(slots), listed(slots));
}

TEST(LiveSlots, HoldsLeftSlotsUntilTheirProcessesAreGone) {
  LiveSlots slots(placement({{"n1", 2}, {"n2", 2}}), false);
  slots.shrink(1);
  EXPECT_THAT(listed(slots), ElementsAre(Pair("n1", 1)));
  EXPECT_THAT(held(slots), ElementsAre(Pair("n1", 2), Pair("n2", 2)));
  EXPECT_FALSE(slots.update({.hosts = {with("n1", 1), with("n2", 1)}}));
  EXPECT_THAT(held(slots), ElementsAre(Pair("n1", 2), Pair("n2", 2))) << "the job may start processes there again";
  slots.mark_sent(slots.listed());
  EXPECT_THAT(held(slots), ElementsAre(Pair("n1", 1), Pair("n2", 1)));
  // The host is searched for processes that have left their session.
  slots.update({.hosts = {with("n1", 1), with("n2", 0)}});
  EXPECT_THAT(held(slots), ElementsAre(Pair("n1", 1), Pair("n2", 1)));
  slots.update({.hosts = {with("n1", 1), {.name = "n2"}}});
  EXPECT_THAT(held(slots), ElementsAre(Pair("n1", 1)));
}

TEST(LiveSlots, KeepsNewSlotsBeforeTheirAgentIsUp) {
  LiveSlots slots(placement({{"n1", 2}}), false);
  slots.add(host("n2", 2), std::nullopt);
  EXPECT_FALSE(slots.update({.hosts = {with("n1", 2)}}));
  EXPECT_THAT(held(slots), ElementsAre(Pair("n1", 2), Pair("n2", 2)));
  EXPECT_EQ(slots.held().size, 4);
  EXPECT_EQ(slots.held().hosts[1].ranks.back().rank, 3);
}

TEST(LiveSlots, CountsSlotsThatAreLeftAndGivenAgainOnce) {
  LiveSlots slots(placement({{"n1", 2}, {"n2", 2}}), false);
  slots.shrink(3);
  slots.mark_sent(slots.listed());
  slots.add(host("n2", 1), std::nullopt);  // the next process there waits until the former one has ended
  EXPECT_THAT(listed(slots), ElementsAre(Pair("n1", 2), Pair("n2", 2)));
  EXPECT_EQ(held(slots), listed(slots));
}

TEST(LiveSlots, FreesSlotsThatTheJobNeverUsed) {
  LiveSlots slots(placement({{"n1", 2}}), false);
  slots.add(host("n2", 2), std::nullopt);
  slots.mark_sent(slots.listed());
  slots.shrink(2);
  EXPECT_THAT(held(slots), ElementsAre(Pair("n1", 2), Pair("n2", 2)));
  slots.update({.hosts = {with("n1", 2)}});
  EXPECT_THAT(held(slots), ElementsAre(Pair("n1", 2), Pair("n2", 2))) << "the job still has the longer list";
  slots.mark_sent(slots.listed());
  EXPECT_THAT(held(slots), ElementsAre(Pair("n1", 2)));
}

TEST(LiveSlots, FreesSlotsThatTheJobWasNotSentAtOnce) {
  LiveSlots slots(placement({{"n1", 2}}), false);
  slots.add(host("n2", 2), std::nullopt);
  slots.shrink(2);
  EXPECT_THAT(held(slots), ElementsAre(Pair("n1", 2)));
  slots.add(host("n2", 2), std::nullopt);
  slots.shrink(3);
  ASSERT_EQ(slots.listed_and_sent().size(), 1U) << "n2 may not be stored yet";
  EXPECT_EQ(slots.listed_and_sent()[0].name, "n1");
  slots.drop_unsent();
  EXPECT_THAT(held(slots), ElementsAre(Pair("n1", 2)));
  EXPECT_EQ(held(slots), listed(slots));
}

TEST(LiveSlots, AHostThatTheReportLacksHasNoProcess) {
  LiveSlots slots(placement({{"n1", 2}, {"n2", 1}}), false);
  slots.shrink(2);
  slots.mark_sent(slots.listed());
  EXPECT_THAT(held(slots), ElementsAre(Pair("n1", 2), Pair("n2", 1)));
  slots.update({.hosts = {with("n1", 2)}});
  EXPECT_THAT(held(slots), ElementsAre(Pair("n1", 2)));
}

TEST(LiveSlots, GivesSlotsBackThatTheJobDoesNotUse) {
  LiveSlots slots(placement({{"n1", 3}}), false);
  LiveHost report = with("n1", 2);
  report.limit = 2;
  EXPECT_TRUE(slots.update({.hosts = {report}}));
  EXPECT_THAT(listed(slots), ElementsAre(Pair("n1", 2)));
  slots.mark_sent(slots.listed());
  EXPECT_EQ(held(slots), listed(slots));
  slots.update({.hosts = {with("n1", 2)}});  // the shorter list ends the driver's limit
  EXPECT_EQ(slots.limit_on("n1"), 2);
  const std::vector<model::HostSpec> offers = {host("n1", 2), host("n2", 1)};
  EXPECT_EQ(choose_slots(slots, 2, {}, offers).size(), 1U) << "a process has failed on the next slot of n1";
  EXPECT_EQ(choose_slots(slots, 1, {host("n1", 1)}, offers).at(0).name, "n1") << "the user names it";
  slots.add(host("n1", 1), std::nullopt);
  EXPECT_FALSE(slots.update({.hosts = {report}})) << "the job does not have the new slot yet";
  EXPECT_EQ(slots.listed_on("n1"), 3);
}

TEST(LiveSlots, ExcludedHostsAreNotUsableAndLeaveFirst) {
  LiveSlots slots(placement({{"n1", 2}, {"n2", 2}}), true);
  slots.update({.hosts = {with("n1", 2), {.name = "n2", .is_excluded = true}}});
  EXPECT_EQ(slots.size(), 4);
  EXPECT_EQ(slots.usable(), 2);
  slots.add(host("n3", 2), std::nullopt);
  EXPECT_EQ(slots.usable(), 4);
  slots.shrink_excluded(4);
  EXPECT_THAT(listed(slots), ElementsAre(Pair("n1", 2), Pair("n3", 2)));
}

TEST(LiveSlots, GivesUpAHostThatHasFailed) {
  LiveSlots slots(placement({{"n1", 2}, {"n2", 2}}), false);
  EXPECT_TRUE(
      slots.update({.hosts = {with("n1", 2), {.name = "n2", .processes = 1, .has_agent = true, .is_excluded = true}}}));
  EXPECT_TRUE(slots.is_excluded("n2"));
  EXPECT_THAT(listed(slots), ElementsAre(Pair("n1", 2)));
  EXPECT_THAT(held(slots), ElementsAre(Pair("n1", 2), Pair("n2", 2)));
  EXPECT_FALSE(slots.update({.hosts = {with("n1", 2), {.name = "n2", .is_excluded = true}}}));
  EXPECT_THAT(held(slots), ElementsAre(Pair("n1", 2)));
}

TEST(LiveSlots, HoldsAllSlotsOfALostHostUntilItsAgentHasEnded) {
  for (const bool keeps_failed : {false, true}) {
    LiveSlots slots(placement({{"n1", 1}, {"n2", 4}}), keeps_failed);
    // The agent still ends the processes, or the host is searched for them.
    slots.update({.hosts = {with("n1", 1), {.name = "n2", .has_agent = true, .is_excluded = true}}});
    slots.shrink_excluded(1);
    slots.mark_sent(slots.listed());
    EXPECT_THAT(held(slots), ElementsAre(Pair("n1", 1), Pair("n2", 4)));
    slots.update({.hosts = {with("n1", 1), {.name = "n2", .is_excluded = true}}});
    EXPECT_THAT(held(slots), ElementsAre(Pair("n1", 1)));
  }
}

TEST(LiveSlots, KeepsAFailedHostThatMayBeUsedAgain) {
  LiveSlots slots(placement({{"n1", 2}, {"n2", 2}}), true);
  EXPECT_FALSE(slots.update({.hosts = {with("n1", 2), {.name = "n2", .is_excluded = true}}}));
  EXPECT_THAT(held(slots), ElementsAre(Pair("n1", 2), Pair("n2", 2)));
}

TEST(LiveSlots, FurtherSlotsAddToTheShare) {
  LiveSlots slots(placement({{"n1", 1}}), false);
  EXPECT_FALSE(slots.share_on("n1").has_value());
  slots.set_share("n1", model::HostShare{.cpus = {4, 5}, .devices = {"b"}});
  slots.add(host("n1", 1), model::HostShare{.cpus = {0, 1}, .devices = {"a"}});
  EXPECT_EQ(slots.share_on("n1"), (model::HostShare{.cpus = {0, 1, 4, 5}, .devices = {"b", "a"}}));
  EXPECT_EQ(slots.held().hosts[0].share, slots.share_on("n1"));
}

TEST(LiveSlots, FewerSlotsKeepWhatTheirRanksUse) {
  LiveSlots slots(placement({{"n1", 2}}), false);
  slots.set_share("n1", model::HostShare{.cpus = {0, 1, 2, 3}, .devices = {"a", "b"}});
  const std::vector<model::BoundRank> bound = {{.rank = 0, .host = "n1", .cpus = {0, 1}, .devices = {"a"}}};
  slots.shrink(1);
  slots.narrow(bound);  // the other process still runs
  EXPECT_EQ(slots.share_on("n1")->devices.size(), 2U);
  slots.mark_sent(slots.listed());
  slots.update({.hosts = {with("n1", 1)}});
  slots.narrow(bound);
  EXPECT_EQ(slots.share_on("n1"), (model::HostShare{.cpus = {0, 1}, .devices = {"a"}}));
}

TEST(LiveSlots, ChoosesNamedHostsThenItsOwn) {
  LiveSlots slots(placement({{"n2", 1}}), false);
  const std::vector<model::HostSpec> offers = {host("n1", 2), host("n2", 2), host("n3", 2)};
  const auto chosen = [&](int count, const std::vector<model::HostSpec>& first) {
    Counts counts;
    for (const model::HostSpec& each : choose_slots(slots, count, first, offers)) counts[each.name] = *each.slots;
    return counts;
  };
  EXPECT_THAT(chosen(1, {}), ElementsAre(Pair("n2", 1)));
  EXPECT_THAT(chosen(3, {}), ElementsAre(Pair("n1", 1), Pair("n2", 2)));
  EXPECT_THAT(chosen(3, {host("n3", 1)}), ElementsAre(Pair("n2", 2), Pair("n3", 1)));
  EXPECT_THAT(chosen(9, {}), ElementsAre(Pair("n1", 2), Pair("n2", 2), Pair("n3", 2)));
  slots.update({.hosts = {{.name = "n3", .is_excluded = true}, with("n2", 1)}});
  EXPECT_THAT(chosen(9, {}), ElementsAre(Pair("n1", 2), Pair("n2", 2)));
  EXPECT_THAT(chosen(0, {}), IsEmpty());
}

}  // namespace
}  // namespace muster::launcherd::live_slots_test
