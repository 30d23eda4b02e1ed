#include "model/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::model::placement_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Case {
  std::string name;
  std::string hosts;  // as -H; empty: none
  int np = 0;
  int per_node = 0;
  bool oversubscribe = false;
  MapBy map_by = MapBy::kSlot;
  std::string expected = {};  // per host "name/slots: rank.local_rank/local_size.cross_rank/cross_size …"
};

base::Result<Placement> place_case(const Case& given) {
  PlacementRequest request;
  if (!given.hosts.empty()) request.hosts = parse_host_list(given.hosts, "-H").value();
  request.np = given.np;
  request.ranks_per_node = given.per_node;
  request.oversubscribe = given.oversubscribe;
  request.map_by = given.map_by;
  return place(request);
}

std::string show(const Placement& placement) {
  std::string text;
  for (const PlacedHost& host : placement.hosts) {
    text += fmt::format("{}{}/{}:", text.empty() ? "" : " | ", display_name(host.host), host.slots);
    for (const PlacedRank& rank : host.ranks) {
      text +=
          fmt::format(" {}.{}/{}.{}/{}", rank.rank, rank.local_rank, rank.local_size, rank.cross_rank, rank.cross_size);
    }
  }
  return text;
}

class PlaceTable : public ::testing::TestWithParam<Case> {};

TEST_P(PlaceTable, GivesTheRankTable) {
  const auto placement = place_case(GetParam());
  ASSERT_TRUE(placement.ok()) << placement.status();
  EXPECT_EQ(show(*placement), GetParam().expected);
  int count = 0;
  for (std::size_t i = 0; i < placement->hosts.size(); ++i) {
    for (const PlacedRank& rank : placement->hosts[i].ranks) {
      EXPECT_EQ(rank.host_index, static_cast<int>(i));
      EXPECT_EQ(placement->rank(rank.rank), rank);
      ++count;
    }
  }
  EXPECT_EQ(count, placement->size);
}

constexpr MapBy kSlot = MapBy::kSlot;
constexpr MapBy kNode = MapBy::kNode;

INSTANTIATE_TEST_SUITE_P(
    Table, PlaceTable,
    ::testing::Values(
        Case{"localhost_by_default", "", 2, 0, false, kSlot, "localhost/2: 0.0/2.0/1 1.1/2.0/1"},
        Case{"localhost_per_node", "", 0, 2, false, kSlot, "localhost/2: 0.0/2.0/1 1.1/2.0/1"},
        Case{"localhost_per_node_with_np", "", 1, 2, false, kSlot, "localhost/2: 0.0/1.0/1"},
        // launchers: b's local rank 2 is alone, so its cross rank is 0 of 1
        Case{"mixed_slots", "a:2,b:3,c:1", 6, 0, false, kSlot,
             "a/2: 0.0/2.0/3 1.1/2.0/2 | b/3: 2.0/3.1/3 3.1/3.1/2 4.2/3.0/1 | c/1: 5.0/1.2/3"},
        Case{"all_slots_without_np", "a:1,b:2", 0, 0, false, kSlot, "a/1: 0.0/1.0/2 | b/2: 1.0/2.1/2 2.1/2.0/1"},
        Case{"np_below_slots_is_exact", "a:4", 2, 0, false, kSlot, "a/4: 0.0/2.0/1 1.1/2.0/1"},
        Case{"hosts_without_ranks_vanish", "a:2,b:2,c:2", 3, 0, false, kSlot,
             "a/2: 0.0/2.0/2 1.1/2.0/1 | b/2: 2.0/1.1/2"},
        Case{"duplicates_merge", "a:1,b:1,a:1", 3, 0, false, kSlot, "a/2: 0.0/2.0/2 1.1/2.0/1 | b/1: 2.0/1.1/2"},
        Case{"bare_duplicates_count", "a,a,b", 0, 0, false, kSlot, "a/2: 0.0/2.0/2 1.1/2.0/1 | b/1: 2.0/1.1/2"},
        Case{"bare_and_explicit_add", "a:2,a", 0, 0, false, kSlot, "a/3: 0.0/3.0/1 1.1/3.0/1 2.2/3.0/1"},
        Case{"case_of_names_is_one_host", "Node:1,node:1", 2, 0, false, kSlot, "Node/2: 0.0/2.0/1 1.1/2.0/1"},
        Case{"one_address_two_spellings", "[::1]:1,[0:0::1]:1", 2, 0, false, kSlot, "[::1]/2: 0.0/2.0/1 1.1/2.0/1"},
        Case{"user_of_one_entry_holds", "a:1,al@a:1", 2, 0, false, kSlot, "al@a/2: 0.0/2.0/1 1.1/2.0/1"},
        Case{"per_node_times_hosts", "a,b", 0, 2, false, kSlot, "a/2: 0.0/2.0/2 1.1/2.0/2 | b/2: 2.0/2.1/2 3.1/2.1/2"},
        Case{"per_node_counts_a_repeated_host_once", "a,a,b", 0, 2, false, kSlot,
             "a/2: 0.0/2.0/2 1.1/2.0/2 | b/2: 2.0/2.1/2 3.1/2.1/2"},
        Case{"per_node_with_np", "a,b", 3, 2, false, kSlot, "a/2: 0.0/2.0/2 1.1/2.0/1 | b/2: 2.0/1.1/2"},
        Case{"explicit_slots_win_over_per_node", "a:3,b", 4, 1, false, kSlot,
             "a/3: 0.0/3.0/2 1.1/3.0/1 2.2/3.0/1 | b/1: 3.0/1.1/2"},
        Case{"per_node_alone_is_that_many_on_each", "a:4,b:4", 0, 1, false, kSlot, "a/4: 0.0/1.0/2 | b/4: 1.0/1.1/2"},
        Case{"oversubscribed_in_turn", "a:1,b:1", 5, 0, true, kSlot,
             "a/1: 0.0/3.0/2 1.1/3.0/2 2.2/3.0/1 | b/1: 3.0/2.1/2 4.1/2.1/2"},
        Case{"oversubscribe_is_not_needed", "a:2,b:2", 2, 0, true, kSlot, "a/2: 0.0/2.0/1 1.1/2.0/1"},
        Case{"oversubscribe_per_node", "a:1,b:1", 0, 2, true, kSlot,
             "a/1: 0.0/2.0/2 1.1/2.0/2 | b/1: 2.0/2.1/2 3.1/2.1/2"},
        Case{"cyclic", "a:2,b:3,c:1", 6, 0, false, kNode,
             "a/2: 0.0/2.0/3 3.1/2.0/2 | b/3: 1.0/3.1/3 4.1/3.1/2 5.2/3.0/1 | c/1: 2.0/1.2/3"},
        Case{"cyclic_below_slots", "a:4,b:4", 3, 0, false, kNode, "a/4: 0.0/2.0/2 2.1/2.0/1 | b/4: 1.0/1.1/2"},
        Case{"cyclic_oversubscribed", "a:1,b:1", 3, 0, true, kNode, "a/1: 0.0/2.0/2 2.1/2.0/1 | b/1: 1.0/1.1/2"}),
    [](const auto& test) { return test.param.name; });

TEST(Place, SixteenOnFourByFour) {
  const auto placement = place_case({"", "n1:4,n2:4,n3:4,n4:4", 16});
  ASSERT_TRUE(placement.ok());
  for (int r = 0; r < 16; ++r) {
    EXPECT_EQ(placement->rank(r), (PlacedRank{r, r % 4, 4, r / 4, 4, r / 4})) << r;
  }
}

TEST(Place, MaxSlotsBoundsOversubscription) {
  PlacementRequest request{.hosts = parse_hostfile("a slots=1 max_slots=2\nb slots=1\n", "f").value(), .np = 6};
  request.oversubscribe = true;
  EXPECT_EQ(show(place(request).value()), "a/1: 0.0/2.0/2 1.1/2.0/2 | b/1: 2.0/4.1/2 3.1/4.1/2 4.2/4.0/1 5.3/4.0/1");
  request.hosts = parse_hostfile("a slots=1 max_slots=2\n", "f").value();
  const auto refused = place(request);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(), HasSubstr("the host has 2; use -np 2, or raise max_slots"));
  EXPECT_THAT(refused.status().message(), HasSubstr("(max_slots=2)"));
}

TEST(Place, MaxSlotsOfRepeatedEntriesAddUnlessOneIsUnbounded) {
  PlacementRequest request{.hosts = parse_hostfile("a max_slots=2\na max_slots=1\n", "f").value(), .np = 4};
  request.oversubscribe = true;
  EXPECT_FALSE(place(request).ok());
  request.np = 3;
  EXPECT_TRUE(place(request).ok());
  request.hosts = parse_hostfile("a max_slots=2\na\n", "f").value();
  request.np = 9;
  EXPECT_TRUE(place(request).ok());
}

TEST(Place, MaxSlotsBoundsPerNode) {
  PlacementRequest request{.hosts = parse_hostfile("a max_slots=2\n", "f").value(), .ranks_per_node = 4};
  const auto refused = place(request);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(), HasSubstr("-N 4 requests 4 ranks on every host, but a has 2; use -N 2"));
}

struct Refusal {
  std::string name;
  std::string hosts;
  int np;
  int per_node;
  std::vector<std::string> parts;  // of the message
};

class PlaceRefuses : public ::testing::TestWithParam<Refusal> {};

TEST_P(PlaceRefuses, WithTableAndFix) {
  const Refusal& given = GetParam();
  const auto placement = place_case({"", given.hosts, given.np, given.per_node});
  ASSERT_FALSE(placement.ok()) << show(*placement);
  for (const std::string& part : given.parts) EXPECT_THAT(placement.status().message(), HasSubstr(part));
}

INSTANTIATE_TEST_SUITE_P(
    Table, PlaceRefuses,
    ::testing::Values(
        Refusal{
            "too_few",
            "a:2,b:3,c:1",
            7,
            0,
            {"not enough slots: 7 ranks are requested, but the hosts together have 6; use -np 6, or -H a:3,b:3,c:1, "
             "or --oversubscribe\n  host  slots\n  a         2\n  b         3\n  c         1"}},
        Refusal{"too_few_on_one", "al@a:2", 3, 0, {"the host has 2", "-H al@a:3", "  al@a      2"}},
        Refusal{"too_few_without_slots", "a,b", 20, 0, {"have 2; use -np 2, or -N 10, or --oversubscribe"}},
        Refusal{"too_few_per_node", "a,b", 5, 2, {"have 4; use -np 4, or -N 3, or --oversubscribe"}},
        Refusal{"localhost_per_node", "", 5, 2, {"the host has 2; use -np 2, or -N 5", "localhost"}},
        Refusal{"many_hosts", "n[1-40]:1", 41, 0, {"have 40; use -np 40, or --oversubscribe\n", "… and 8 more hosts"}},
        Refusal{
            "per_node_above_explicit", "a:4,b:1", 0, 2, {"-N 2 requests 2 ranks on every host, but b has 1; use -N 1"}},
        Refusal{"nothing_said", "", 0, 0, {"the number of ranks is missing: use -np N"}},
        Refusal{"too_many_for_a_job", "n[1-100]:100000", 0, 0, {"more than the 1000000 of one job"}},
        Refusal{"too_many_per_node", "n[1-100000]", 0, 100000, {"more than the 1000000 of one job"}},
        Refusal{"two_users", "al@a,bob@a", 2, 0, {"host a is listed for two users, al and bob"}},
        Refusal{"negative", "a", -1, 0, {"cannot be negative"}}),
    [](const auto& test) { return test.param.name; });

TEST(Place, TwoPortsOfOneHostAreRefused) {
  const auto placement = place({.hosts = parse_hostfile("a port=1\na port=2\n", "f").value(), .np = 2});
  ASSERT_FALSE(placement.ok());
  EXPECT_THAT(placement.status().message(), HasSubstr("two ssh ports, 1 and 2"));
}

TEST(Place, FixesOfTheMessageWork) {
  // What the message of "too_few" proposes, tried.
  EXPECT_TRUE(place_case({"", "a:2,b:3,c:1", 6}).ok());
  EXPECT_TRUE(place_case({"", "a:3,b:3,c:1", 7}).ok());
  EXPECT_TRUE(place_case({"", "a:2,b:3,c:1", 7, 0, true}).ok());
  EXPECT_TRUE(place_case({"", "a,b", 20, 10}).ok());
}

TEST(Place, SlotSumsDoNotOverflow) {
  std::vector<HostSpec> hosts(50'000, HostSpec{.name = "a", .user = "", .port = 0, .slots = kMaxSlotsPerHost});
  const auto placement = place({.hosts = hosts, .np = 1});
  ASSERT_TRUE(placement.ok()) << placement.status();
  EXPECT_EQ(placement->hosts[0].slots, kMaxRanks);
}

TEST(FormatPlacement, IsOneLineARank) {
  const std::string table = format_placement(place_case({"", "node1:2,b:1", 3}).value());
  EXPECT_EQ(table,
            "  rank  host         local        cross\n"
            "     0  node1          0/2          0/2\n"
            "     1  node1          1/2          0/1\n"
            "     2  b              0/1          1/2\n");
}

TEST(PlacementDeathTest, RankOutsideIsABug) {
  const Placement placement = place_case({"", "a:1", 1}).value();
  EXPECT_DEATH((void)placement.rank(1), "check failed");
}

}  // namespace
}  // namespace muster::model::placement_test
