#include "proto/world_bytes.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "proto/muster/v1/host_runs.pb.h"

namespace muster::proto::world_bytes_test {
namespace {

v1::World world_of(const std::vector<std::pair<std::string, std::vector<int>>>& hosts) {
  v1::World world;
  world.set_name("muster-abcdefgh-0");
  world.set_universe(7);
  world.add_programs()->set_ranks(3);
  for (const auto& [name, ranks] : hosts) {
    v1::WorldHost& host = *world.add_hosts();
    host.set_name(name);
    host.mutable_ranks()->Add(ranks.begin(), ranks.end());
    world.set_size(world.size() + static_cast<int>(ranks.size()));
  }
  return world;
}

void expect_same(const v1::World& world) {
  auto read = world_of_bytes(world_bytes(world));
  ASSERT_TRUE(read.has_value());
  read->DiscardUnknownFields();  // the short form
  EXPECT_EQ(read->DebugString(), world.DebugString());
}

// `hosts` hosts of 8 ranks each, whose names count up.
v1::World large_world(int hosts, const std::string& suffix) {
  v1::World world;
  for (int i = 0; i < hosts; ++i) {
    v1::WorldHost& host = *world.add_hosts();
    host.set_name(fmt::format("rack3-n{:05}{}", i, suffix));
    for (int k = 0; k < 8; ++k) host.add_ranks(8 * i + k);
  }
  return world;
}

TEST(WorldBytes, ComeBackAsTheSameWorld) {
  expect_same(world_of({}));
  expect_same(world_of({{"n1", {0, 1}}}));
  expect_same(world_of({{"n1", {0, 1}}, {"n2", {2, 3}}, {"n3", {4, 5}}}));
  expect_same(world_of({{"n1", {0, 3}}, {"n2", {1, 4}}, {"n3", {2, 5}}}));           // --map-by node
  expect_same(world_of({{"n1", {0, 1}}, {"n2", {2}}, {"login", {3}}, {"n7", {}}}));  // nothing counts up
  expect_same(world_of({{"n1", {0, 5, 6}}, {"n2", {1, 2}}}));                        // no pattern
  expect_same(world_of({{"n9", {0}}, {"n10", {1}}, {"n11", {2}}}));
  expect_same(world_of({{"n09", {0}}, {"n10", {1}}, {"n99", {2}}, {"n100", {3}}}));
  expect_same(world_of({{"10.0.0.254", {0}}, {"10.0.0.255", {1}}, {"10.0.1.0", {2}}}));
  expect_same(world_of({{"a1.b2", {0}}, {"a2.b2", {1}}, {"a3.b2", {2}}, {"a3.b3", {3}}}));
  expect_same(world_of({{"n18446744073709551615", {0}}, {"n18446744073709551616", {1}}}));
  expect_same(world_of({{"", {0}}, {"", {1}}}));
  expect_same(large_world(2'000, ""));
  expect_same(large_world(2'000, ".cluster7.example.org"));
}

TEST(WorldBytes, AreShortHoweverManyHostsThereAre) {
  EXPECT_LT(world_bytes(large_world(2'000, "")).size(), 100u);
  EXPECT_LT(world_bytes(large_world(2'000, ".cluster7.example.org")).size(), 100u);
}

TEST(WorldBytes, APlainWorldCanBeRead) {
  const v1::World world = world_of({{"n1", {0}}, {"n2", {1}}});
  const auto read = world_of_bytes(world.SerializeAsString());
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->DebugString(), world.DebugString());
}

TEST(WorldBytes, OtherBytesAreNoWorld) {
  EXPECT_FALSE(world_of_bytes("\xff\xff\xff").has_value());
  v1::HostRuns runs;
  runs.add_runs()->set_hosts(2'000'000'000);
  EXPECT_FALSE(world_of_bytes(runs.SerializeAsString()).has_value());
  runs.mutable_runs(0)->set_hosts(2);
  runs.mutable_runs(0)->set_ranks(2'000'000'000);
  EXPECT_FALSE(world_of_bytes(runs.SerializeAsString()).has_value());
  runs.mutable_runs(0)->set_ranks(1);
  runs.mutable_runs(0)->set_digits(2'000'000'000);
  EXPECT_FALSE(world_of_bytes(runs.SerializeAsString()).has_value());
}

}  // namespace
}  // namespace muster::proto::world_bytes_test
