#include "rendezvous/host_tree.h"

#include <gtest/gtest.h>

#include <map>

namespace muster::rendezvous::host_tree_test {
namespace {

TEST(HostTree, EachHostHasAtMostFanoutChildrenAndOneParent) {
  const HostTree tree{.hosts = 100, .fanout = 3};
  std::map<int, int> children;
  for (int host = 1; host < tree.hosts; ++host) {
    EXPECT_LT(tree.parent(host), host);
    ++children[tree.parent(host)];
  }
  for (int host = 0; host < tree.hosts; ++host) {
    EXPECT_LE(children[host], 3);
    EXPECT_EQ(tree.has_children(host), children[host] > 0) << host;
  }
}

TEST(HostTree, FindsTheChildWhoseSubtreeHasAHost) {
  const HostTree tree{.hosts = 20, .fanout = 2};
  EXPECT_EQ(tree.child_towards(0, 1), 1);
  EXPECT_EQ(tree.child_towards(0, 9), 1);  // 9 -> 4 -> 1 -> 0
  EXPECT_EQ(tree.child_towards(1, 9), 4);
  EXPECT_EQ(tree.child_towards(4, 9), 9);
  EXPECT_EQ(tree.child_towards(2, 9), -1) << "another branch";
  EXPECT_EQ(tree.child_towards(9, 9), -1) << "the host itself";
  EXPECT_EQ(tree.child_towards(9, 4), -1) << "above";
}

TEST(HostTree, TenThousandHostsHaveThreeLevelsBelowTheRoot) {
  const HostTree tree{.hosts = 10'000, .fanout = kDefaultStoreFanout};
  int levels = 0;
  for (int host = tree.hosts - 1; host > 0; host = tree.parent(host)) ++levels;
  EXPECT_EQ(levels, 3);
  EXPECT_TRUE(tree.is_valid());
  EXPECT_TRUE(tree.has(9'999));
  EXPECT_FALSE(tree.has(10'000));
  EXPECT_FALSE(tree.has(-1));
  EXPECT_FALSE((HostTree{.hosts = 0}).is_valid());
  EXPECT_FALSE((HostTree{.hosts = 2, .fanout = 0}).is_valid());
}

}  // namespace
}  // namespace muster::rendezvous::host_tree_test
