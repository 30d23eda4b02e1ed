// Masks of real sites: tests/unit/agent/job/site_pinning_test.cc. Here: rules and mistakes.
#include "model/cpu_binding.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "base/strings.h"

namespace muster::model::cpu_binding_test {
namespace {

// Numbered as Linux does it: first threads of all cores first.
NodeShape machine(int sockets, int cores, int threads) {
  NodeShape node;
  const int all = sockets * cores;
  for (int core = 0; core < all; ++core) {
    CoreShape& entry = node.cores.emplace_back(CoreShape{core / cores, core / cores, {}});
    for (int thread = 0; thread < threads; ++thread) entry.cpus.push_back(core + thread * all);
  }
  return node;
}

std::string masks(const NodeShape& node, int ranks, const Pinning& pinning) {
  const auto bindings = bind_cpus(node, ranks, pinning);
  if (!bindings.ok()) return bindings.status().message();
  std::vector<std::string> lists;
  for (const RankBinding& binding : *bindings) {
    lists.push_back(binding.cpus.empty() ? "all" : format_cpu_list(binding.cpus));
  }
  return base::join(lists, ":");
}

TEST(Depth, ThreadsOfOneCoreAfterThoseOfAll) {
  const NodeShape node = machine(1, 4, 2);
  EXPECT_EQ(masks(node, 3, {.bind_to = BindTo::kDepth}), "0:1:2");
  EXPECT_EQ(masks(node, 4, {.bind_to = BindTo::kDepth, .depth = 2}), "0-1:2-3:4-5:6-7");
  EXPECT_EQ(masks(node, 1, {.bind_to = BindTo::kDepth, .depth = 8}), "0-7");
  EXPECT_EQ(masks(node, 1, {.bind_to = BindTo::kDepth, .depth = 6}), "0-5");
}

TEST(Depth, WithHyperthreadsCoreByCore) {
  const NodeShape node = machine(1, 4, 2);
  const auto rule = [&](int ranks, int depth, int hyperthreads) {
    return masks(node, ranks, {.bind_to = BindTo::kDepth, .depth = depth, .hyperthreads = hyperthreads});
  };
  EXPECT_EQ(rule(2, 4, 2), "0-1,4-5:2-3,6-7");
  EXPECT_EQ(rule(4, 1, 1), "0:1:2:3");
  EXPECT_EQ(rule(3, 1, 2), "0:4:1");
  EXPECT_EQ(rule(2, 3, 2), "0-1,4:2-3,6");  // no core of two ranks
  EXPECT_EQ(rule(5, 1, 1),
            "--bind-to depth: 5 ranks of 1 hardware thread do not fit on 4 cores of 1 socket: only 4 ranks do, because "
            "no rank spans two sockets; use fewer ranks per host, or another --depth or --hyperthreads");
}

TEST(Depth, NoRankLiesInTwoSockets) {
  const NodeShape node = machine(2, 5, 1);
  EXPECT_EQ(masks(node, 4, {.bind_to = BindTo::kDepth, .depth = 2}), "0-1:2-3:5-6:7-8");
  EXPECT_EQ(masks(node, 2, {.bind_to = BindTo::kDepth, .depth = 5, .hyperthreads = 1}), "0-4:5-9");
  EXPECT_TRUE(masks(node, 1, {.bind_to = BindTo::kDepth, .depth = 6})
                  .ends_with(": only 0 ranks do, because no rank spans two sockets; use fewer ranks per host, or "
                             "another --depth or --hyperthreads"));
}

TEST(Depth, HoldsItsPromisesOnAnyMachine) {
  constexpr unsigned kSeed = 20260102;
  std::mt19937 random(kSeed);
  const auto pick = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); };
  int bound = 0;
  for (int round = 0; round < 2000; ++round) {
    NodeShape node = machine(pick(1, 3), pick(1, 6), pick(1, 4));
    std::erase_if(node.cores, [&](const CoreShape&) { return pick(0, 4) == 0; });
    const Pinning pinning{.bind_to = BindTo::kDepth, .depth = pick(1, 8), .hyperthreads = pick(0, 3)};
    const int ranks = pick(1, 8);
    const auto bindings = bind_cpus(node, ranks, pinning);
    if (!bindings.ok() || node.cores.empty()) continue;
    ++bound;
    std::map<int, int> socket_of;
    for (const CoreShape& core : node.cores) {
      for (std::size_t i = 0; i < core.cpus.size(); ++i) {
        const bool is_used = pinning.hyperthreads == 0 || i < static_cast<std::size_t>(pinning.hyperthreads);
        if (is_used) socket_of[core.cpus[i]] = core.socket;
      }
    }
    std::set<int> given;
    for (const RankBinding& binding : *bindings) {
      ASSERT_EQ(binding.cpus.size(), static_cast<std::size_t>(pinning.depth)) << round;
      std::set<int> sockets;
      for (const int cpu : binding.cpus) {
        ASSERT_TRUE(socket_of.contains(cpu)) << round;
        ASSERT_TRUE(given.insert(cpu).second) << round << ": cpu " << cpu << " is given twice";
        sockets.insert(socket_of[cpu]);
      }
      ASSERT_EQ(sockets.size(), 1U) << round;
      ASSERT_GE(binding.physical_cores, 1);
    }
  }
  EXPECT_GT(bound, 500);
}

TEST(Lists, EachLocalRankItsOwn) {
  const NodeShape node = machine(1, 4, 2);
  const Pinning pinning{.bind_to = BindTo::kList, .cpu_lists = {{0, 4}, {1, 2}}};
  EXPECT_EQ(masks(node, 2, pinning), "0,4:1-2");
  const auto bindings = bind_cpus(node, 2, pinning);
  EXPECT_EQ((*bindings)[0].physical_cores, 1);
  EXPECT_EQ((*bindings)[1].physical_cores, 2);
  EXPECT_EQ(masks({}, 1, pinning), "0,4");
  EXPECT_EQ(
      masks(node, 3, pinning),
      "--bind-to list has 2 lists, but the host has 3 ranks: add a list for each rank, because no list is used twice, "
      "or use --bind-to share");
  EXPECT_EQ(masks(node, 1, {.bind_to = BindTo::kList, .cpu_lists = {{7, 8, 9}}}),
            "--bind-to list gives local rank 0 CPU 8-9, but ranks may use only 0-7");
  EXPECT_EQ(masks(node, 1, {.bind_to = BindTo::kList, .cpu_lists = {{0, 1}}, .reserved_cores = {0}}),
            "--bind-to list gives local rank 0 CPU 0, but ranks may use only 1-3,5-7");
}

TEST(ReservedCores, AreLeftOutOfEveryRule) {
  const NodeShape node = machine(2, 4, 2);
  const auto rule = [&](BindTo bind_to) { return masks(node, 2, {.bind_to = bind_to, .reserved_cores = {0, 4}}); };
  EXPECT_EQ(rule(BindTo::kShare), "1-3,9-11:5-7,13-15");
  EXPECT_EQ(rule(BindTo::kCore), "1,9:5,13");
  EXPECT_EQ(rule(BindTo::kNuma), "1-3,9-11:5-7,13-15");
  EXPECT_EQ(rule(BindTo::kSocket), "1-3,9-11:5-7,13-15");
  EXPECT_EQ(rule(BindTo::kNone), "1-3,5-7,9-11,13-15:1-3,5-7,9-11,13-15");
  EXPECT_EQ(rule(BindTo::kDepth), "1:2");
  // More ranks than cores: bound to all that is left. A core has the number of any of its threads.
  EXPECT_EQ(masks(node, 7, {.reserved_cores = {0, 4}}),
            masks(node, 7, {.bind_to = BindTo::kNone, .reserved_cores = {4, 8}}));
  EXPECT_EQ(masks(node, 2, {.reserved_cores = {99}}), "0-3,8-11:4-7,12-15");
  EXPECT_EQ(masks(machine(1, 2, 1), 1, {.reserved_cores = {0, 1}}), "--reserve-cores 0-1 leaves no core to the ranks");
}

TEST(Hyperthreads, LimitEveryRule) {
  const NodeShape node = machine(1, 4, 2);
  EXPECT_EQ(masks(node, 2, {.hyperthreads = 1}), "0-1:2-3");
  EXPECT_EQ(masks(node, 2, {.bind_to = BindTo::kNone, .hyperthreads = 1}), "0-3:0-3");
  EXPECT_EQ(masks(node, 2, {.hyperthreads = 4}), "0-1,4-5:2-3,6-7");  // more than there are
}

TEST(BindCpus, WhereNothingIsKnownNobodyIsBound) {
  EXPECT_EQ(masks({}, 2, {.bind_to = BindTo::kDepth, .depth = 4}), "all:all");
  EXPECT_EQ(masks({}, 2, {}), "all:all");
}

}  // namespace
}  // namespace muster::model::cpu_binding_test
