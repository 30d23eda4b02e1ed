#include "agent/pmi/process_mapping.h"

#include <gtest/gtest.h>

namespace muster::agent::process_mapping_test {
namespace {

using Hosts = std::vector<std::vector<int>>;

TEST(ProcessMapping, SaysWhichRanksShareAHost) {
  const std::pair<Hosts, std::string> table[] = {
      {{{0, 1, 2}}, "(vector,(0,1,3))"},
      {{{0, 1}, {2, 3}, {4, 5}}, "(vector,(0,3,2))"},
      {{{0, 1}, {2, 3, 4}, {5}}, "(vector,(0,1,2),(1,1,3),(2,1,1))"},
      {{{0, 1}, {2, 3}, {4}}, "(vector,(0,2,2),(2,1,1))"},
      {{{0, 3}, {1, 4}, {2, 5}}, "(vector,(0,3,1),(0,3,1))"},        // --map-by node
      {{{0, 1, 6}, {2, 3, 7}, {4, 5}}, "(vector,(0,3,2),(0,2,1))"},  // oversubscribed
  };
  for (const auto& [hosts, mapping] : table) EXPECT_EQ(pmi_process_mapping(hosts, 1024), mapping);
}

TEST(ProcessMapping, IsLeftOutRatherThanWrong) {
  EXPECT_EQ(pmi_process_mapping({}, 1024), "");
  EXPECT_EQ(pmi_process_mapping({{0, 2}}, 1024), "") << "rank 1 is nowhere";
  EXPECT_EQ(pmi_process_mapping({{0, -1}}, 1024), "");
  Hosts many;
  for (int rank = 0; rank < 300; rank += 3) {
    many.push_back({rank});
    many.push_back({rank + 1, rank + 2});
  }
  EXPECT_EQ(pmi_process_mapping(many, 1024), "") << "too long for a value";
  const std::string long_one = pmi_process_mapping(many, 4096);
  EXPECT_TRUE(long_one.starts_with("(vector,(0,1,1),(1,1,2),(2,1,1)")) << long_one;
  EXPECT_TRUE(long_one.ends_with(",(199,1,2))")) << long_one;
}

}  // namespace
}  // namespace muster::agent::process_mapping_test
