#include "launcherd/plan/rank_table.h"

#include <vector>

#include <gtest/gtest.h>

namespace muster::launcherd::rank_table_test {
namespace {

model::Placement placement() {
  model::Placement placement;
  placement.size = 3;
  placement.hosts.resize(2);
  placement.hosts[0].host.name = "n1";
  placement.hosts[0].ranks = {{.rank = 0}, {.rank = 2}};
  placement.hosts[1].host.name = "n2";
  placement.hosts[1].ranks = {{.rank = 1}};
  return placement;
}

TEST(RankTable, HasEachHostWithItsRanks) {
  const v1::RankTable table = rank_table_of(
      placement(), [](std::size_t host) { return "10.0.0." + std::to_string(host + 1); },
      [](int rank) { return rank == 2 ? 4 : 0; });
  ASSERT_EQ(table.hosts_size(), 2);
  EXPECT_EQ(table.hosts(0).name(), "n1");
  EXPECT_EQ(table.hosts(0).address(), "10.0.0.1");
  EXPECT_EQ(std::vector<int>(table.hosts(0).ranks().begin(), table.hosts(0).ranks().end()), (std::vector<int>{0, 2}));
  EXPECT_EQ(std::vector<int>(table.hosts(0).cpus().begin(), table.hosts(0).cpus().end()), (std::vector<int>{0, 4}));
  EXPECT_EQ(table.hosts(1).ranks(0), 1);
  EXPECT_EQ(table.hosts(1).cpus_size(), 0) << "its rank is not bound";
}

TEST(RankTable, PutsTheRanksOfAHostInTheOrderOfTheirLocalRanks) {
  model::Placement mixed = placement();
  mixed.hosts[0].ranks = {{.rank = 0, .local_rank = 1}, {.rank = 2, .local_rank = 0}};
  const v1::RankTable table = rank_table_of(
      mixed, [](std::size_t) { return ""; }, [](int rank) { return rank == 2 ? 4 : 0; });
  EXPECT_EQ(std::vector<int>(table.hosts(0).ranks().begin(), table.hosts(0).ranks().end()), (std::vector<int>{2, 0}));
  EXPECT_EQ(std::vector<int>(table.hosts(0).cpus().begin(), table.hosts(0).cpus().end()), (std::vector<int>{4, 0}));
}

}  // namespace
}  // namespace muster::launcherd::rank_table_test
