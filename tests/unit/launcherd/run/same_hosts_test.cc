#include "launcherd/run/same_hosts.h"

#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcherd::same_hosts_test {
namespace {

using ::testing::ElementsAre;

std::vector<int> ranks_of(const model::PlacedHost& host) {
  std::vector<int> ranks;
  for (const model::PlacedRank& rank : host.ranks) ranks.push_back(rank.rank);
  return ranks;
}

TEST(SameHostEntries, RanksMoveToTheFirstEntryAndSlotsAreAdded) {
  const model::Placement placement = model::place_as_listed(
      {{.name = "a", .slots = 1}, {.name = "b", .slots = 2}, {.name = "c", .slots = 1}}, {0, 1, 2});
  const model::Placement result = merged(placement, {0, 1, 0});
  ASSERT_EQ(result.hosts.size(), 2u);
  EXPECT_EQ(result.hosts[0].host.name, "a");
  EXPECT_EQ(result.hosts[0].slots, 2);
  EXPECT_THAT(ranks_of(result.hosts[0]), ElementsAre(0, 2));
  EXPECT_THAT(ranks_of(result.hosts[1]), ElementsAre(1));
}

TEST(SameHostEntries, SharesThatDoNotOverlapAreJoined) {
  const auto share = joined(model::HostShare{.cpus = {0, 1}, .devices = {"GPU-1"}},
                            model::HostShare{.cpus = {2}, .devices = {"GPU-2"}, .is_open = true});
  ASSERT_TRUE(share.has_value());
  EXPECT_THAT(share->cpus, ElementsAre(0, 1, 2));
  EXPECT_THAT(share->devices, ElementsAre("GPU-1", "GPU-2"));
  EXPECT_TRUE(share->is_open);
  EXPECT_FALSE(share->is_crowded);
}

TEST(SameHostEntries, AShareOfAnyCoresJoinsToAnyCores) {
  const auto share = joined(model::HostShare{.cpus = {0, 1}}, model::HostShare{});
  ASSERT_TRUE(share.has_value());
  EXPECT_TRUE(share->cpus.empty());
}

TEST(SameHostEntries, OverlappingOrMissingSharesAreDecidedAnew) {
  EXPECT_EQ(joined(model::HostShare{.cpus = {0, 1}}, model::HostShare{.cpus = {1, 2}}), std::nullopt);
  EXPECT_EQ(joined(model::HostShare{.devices = {"GPU-1"}}, model::HostShare{.devices = {"GPU-1"}}), std::nullopt);
  EXPECT_EQ(joined(std::nullopt, model::HostShare{}), std::nullopt);
  EXPECT_EQ(joined(model::HostShare{}, std::nullopt), std::nullopt);
}

}  // namespace
}  // namespace muster::launcherd::same_hosts_test
