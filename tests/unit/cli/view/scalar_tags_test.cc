#include "cli/view/scalar_tags.h"

#include <gtest/gtest.h>

namespace muster::cli::scalar_tags_test {
namespace {

TEST(HostTag, GroupsByTheKindOfValue) {
  EXPECT_EQ(host_tag(kCpuPercent, "n1"), "hosts_cpu_percent/n1");
  EXPECT_EQ(host_tag(kCpuPercent, "n\x1b"), "hosts_cpu_percent/n\\x1b");
}

TEST(AddScores, AddsUpTheRanksOfAHost) {
  std::vector<v1::RankLateness> late(3);
  for (int rank = 0; rank < 3; ++rank) late[static_cast<std::size_t>(rank)].set_rank(rank);
  late[0].set_host("n1");
  late[0].set_score(0.5);
  late[1].set_host("n2");
  late[1].set_score(0.75);
  late[2].set_host("n2");
  late[2].set_score(0.875);
  std::vector<TensorboardValue> values;
  add_scores(late, values);
  ASSERT_EQ(values.size(), 5U);
  EXPECT_EQ(values[2].tag, "straggler_score/rank_2");
  EXPECT_EQ(std::get<double>(values[2].value), 0.875);
  EXPECT_EQ(values[3].tag, "straggler_score/host_n1");
  EXPECT_EQ(std::get<double>(values[3].value), 0.5);
  EXPECT_EQ(values[4].tag, "straggler_score/host_n2");
  EXPECT_EQ(std::get<double>(values[4].value), 0.625);
}

}  // namespace
}  // namespace muster::cli::scalar_tags_test
