#include "model/node_shape.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace muster::model::node_shape_test {
namespace {

// `sockets` × `cores` each with `threads`, numbered as Linux does: first threads of all cores, then second threads.
NodeShape node(int sockets, int cores, int threads, int numa_per_socket = 1) {
  NodeShape shape;
  for (int s = 0; s < sockets; ++s) {
    for (int c = 0; c < cores; ++c) {
      CoreShape core{.socket = s, .numa = s * numa_per_socket + c * numa_per_socket / cores, .cpus = {}};
      for (int t = 0; t < threads; ++t) core.cpus.push_back(t * sockets * cores + s * cores + c);
      shape.cores.push_back(core);
    }
  }
  return shape;
}

// A cpuset that leaves `counts[s]` cores of socket s.
NodeShape uneven(const std::vector<int>& counts) {
  NodeShape shape;
  int cpu = 0;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    for (int c = 0; c < counts[s]; ++c) {
      shape.cores.push_back({.socket = static_cast<int>(s), .numa = static_cast<int>(s), .cpus = {cpu++}});
    }
  }
  return shape;
}

std::string show(const std::vector<RankBinding>& bindings) {
  std::string text;
  for (const RankBinding& binding : bindings) {
    text += fmt::format("{}{}[", text.empty() ? "" : " ", binding.physical_cores);
    for (std::size_t i = 0; i < binding.cpus.size(); ++i)
      text += fmt::format("{}{}", i > 0 ? "," : "", binding.cpus[i]);
    text += "]";
  }
  return text;
}

struct Case {
  std::string name;
  NodeShape node;
  int ranks;
  BindTo bind_to;
  std::string expected;  // per rank: physical_cores[cpus]
};

class BindTable : public ::testing::TestWithParam<Case> {};

TEST_P(BindTable, Gives) {
  EXPECT_EQ(show(bind_ranks(GetParam().node, GetParam().ranks, GetParam().bind_to)), GetParam().expected);
}

using enum BindTo;

INSTANTIATE_TEST_SUITE_P(
    Table, BindTable,
    ::testing::Values(Case{"one_socket_even", node(1, 4, 1), 2, kShare, "2[0,1] 2[2,3]"},
                      Case{"one_socket_remainder", node(1, 4, 1), 3, kShare, "2[0,1] 1[2] 1[3]"},
                      Case{"one_rank_has_all", node(2, 2, 1), 1, kShare, "4[0,1,2,3]"},
                      Case{"two_sockets_even", node(2, 4, 1), 4, kShare, "2[0,1] 2[2,3] 2[4,5] 2[6,7]"},
                      Case{"two_sockets_one_each", node(2, 2, 1), 2, kShare, "2[0,1] 2[2,3]"},
                      Case{"odd_ranks_keep_to_sockets", node(2, 4, 1), 3, kShare, "2[0,1] 2[2,3] 4[4,5,6,7]"},
                      Case{"hyperthreads_go_with_their_core", node(1, 4, 2), 2, kShare, "2[0,1,4,5] 2[2,3,6,7]"},
                      Case{"two_sockets_hyperthreads", node(2, 2, 2), 2, kShare, "2[0,1,4,5] 2[2,3,6,7]"},
                      Case{"one_core_each", node(1, 3, 1), 3, kShare, "1[0] 1[1] 1[2]"},
                      Case{"more_ranks_than_cores", node(1, 2, 2), 3, kShare, "1[] 1[] 1[]"},
                      Case{"cpuset_uneven_sockets", uneven({1, 6}), 3, kShare, "2[1,2] 2[3,4] 2[5,6]"},
                      Case{"cpuset_uneven_both_used", uneven({2, 6}), 4, kShare, "2[0,1] 2[2,3] 2[4,5] 2[6,7]"},
                      Case{"cpuset_lone_core_is_used_when_needed", uneven({1, 3}), 4, kShare, "1[0] 1[1] 1[2] 1[3]"},
                      Case{"fewer_ranks_than_sockets", node(4, 1, 1), 2, kShare, "2[0,1] 2[2,3]"},
                      Case{"three_ranks_four_sockets", node(4, 1, 1), 3, kShare, "2[0,1] 1[2] 1[3]"},
                      Case{"unknown_node", NodeShape{}, 2, kShare, "0[] 0[]"},
                      Case{"no_ranks", node(1, 2, 1), 0, kShare, ""},
                      Case{"none_counts_threads_only", node(1, 4, 1), 2, kNone, "2[] 2[]"},
                      Case{"none_crowded", node(1, 1, 1), 2, kNone, "1[] 1[]"},
                      Case{"core_spreads", node(2, 4, 2), 2, kCore, "1[0,8] 1[4,12]"},
                      Case{"core_crowded", node(1, 1, 2), 2, kCore, "1[] 1[]"},
                      Case{"numa", node(1, 4, 1, 2), 2, kNuma, "2[0,1] 2[2,3]"},
                      Case{"numa_shared", node(1, 4, 1, 2), 4, kNuma, "1[0,1] 1[0,1] 1[2,3] 1[2,3]"},
                      Case{"numa_smaller_than_share", node(1, 4, 1, 2), 1, kNuma, "2[0,1]"},
                      Case{"socket", node(2, 2, 1), 4, kSocket, "1[0,1] 1[0,1] 1[2,3] 1[2,3]"},
                      Case{"socket_crowded", node(2, 1, 1), 4, kSocket, "1[0] 1[0] 1[1] 1[1]"}),
    [](const auto& test) { return test.param.name; });

// For every small machine and every number of ranks: shares are disjoint, use each core at most once, never cross a
// socket while they need not, and sockets of equal size get shares that differ by one core at most within a socket.
TEST(BindShare, HoldsItsPromisesExhaustively) {
  for (int sockets = 1; sockets <= 4; ++sockets) {
    for (int cores = 1; cores <= 6; ++cores) {
      const NodeShape shape = node(sockets, cores, 2);
      for (int ranks = 1; ranks <= sockets * cores; ++ranks) {
        const auto bindings = bind_ranks(shape, ranks, kShare);
        ASSERT_EQ(bindings.size(), static_cast<std::size_t>(ranks));
        std::set<int> used;
        for (const RankBinding& binding : bindings) {
          EXPECT_GE(binding.physical_cores, 1);
          EXPECT_EQ(binding.cpus.size(), static_cast<std::size_t>(binding.physical_cores) * 2);
          EXPECT_TRUE(std::ranges::is_sorted(binding.cpus));
          std::set<int> touched;
          for (const int cpu : binding.cpus) {
            EXPECT_TRUE(used.insert(cpu).second) << "cpu " << cpu << " is given twice";
            touched.insert(cpu % (sockets * cores) / cores);
          }
          EXPECT_TRUE(touched.size() == 1 || ranks < sockets) << sockets << "x" << cores << " for " << ranks;
        }
        EXPECT_EQ(used.size(), static_cast<std::size_t>(sockets * cores * 2)) << "a core is left idle";
      }
    }
  }
}

TEST(CpuList, RangesAndNumbers) {
  EXPECT_EQ(format_cpu_list({8, 2, 0, 1, 2}), "0-2,8");
  EXPECT_EQ(format_cpu_list({}), "");
}

}  // namespace
}  // namespace muster::model::node_shape_test
