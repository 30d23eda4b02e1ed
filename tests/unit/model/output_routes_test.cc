#include "model/output_routes.h"

#include <gtest/gtest.h>

namespace muster::model::output_routes_test {
namespace {

TEST(StreamMap, OneNumberOrOneForEachRank) {
  EXPECT_EQ(*parse_stream_map("3"), (StreamMap{.of_others = 3}));
  EXPECT_EQ(*parse_stream_map("0:1,11:2"), (StreamMap{.of_ranks = {{0, 1}, {11, 2}}}));
  EXPECT_EQ(parse_stream_map("0:1,11:2")->of(1), 0U);
  EXPECT_EQ(parse_stream_map("0:1,11:2")->of(11), kStderr);
  EXPECT_TRUE(parse_stream_map("0")->is_empty());
  EXPECT_TRUE(parse_stream_map("0:0,1:0")->is_empty());
  EXPECT_FALSE(parse_stream_map("0:0,1:1")->is_empty());
  for (const char* bad : {"", "4", "-1", "x", "0:4", "0:", ":1", "0:1,", "0:1,3", "0:1:1", "x:1"}) {
    const auto map = parse_stream_map(bad);
    ASSERT_FALSE(map.ok()) << bad;
    EXPECT_TRUE(map.status().message().starts_with("must be a number from 0 to 3, or RANK:NUMBER")) << bad;
  }
}

TEST(LocalRanks, AList) {
  EXPECT_EQ(*parse_local_ranks("2, 0,2"), (std::set<int>{0, 2}));
  for (const char* bad : {"", "0,", "a", "-1", "0-2"}) EXPECT_FALSE(parse_local_ranks(bad).ok()) << bad;
}

TEST(OutputRoutes, TheConsoleShowsWhatNobodyHides) {
  OutputRoutes routes;
  EXPECT_TRUE(routes.shows_all());
  EXPECT_EQ(routes.console(5), kStdout | kStderr);
  EXPECT_EQ(routes.files.of(5), kStdout | kStderr);
  routes.hidden = *parse_stream_map("0:1");
  EXPECT_EQ(routes.console(0), kStderr);
  EXPECT_EQ(routes.console(1), kStdout | kStderr);
  routes.shown_ranks = {0};
  EXPECT_EQ(routes.console(0), kStderr);
  EXPECT_EQ(routes.console(1), 0U);
  EXPECT_FALSE(routes.shows_all());
}

}  // namespace
}  // namespace muster::model::output_routes_test
