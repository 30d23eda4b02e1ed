#include "cli/top/top_areas.h"

#include <gtest/gtest.h>

namespace muster::cli::top_areas_test {
namespace {

TEST(TopAreas, BothTablesHaveHalfIfBothAreLong) {
  const MainAreas areas = main_areas(34, 1, 10'000, 64, TopPane::kJobs);
  EXPECT_EQ(areas.jobs.title, 1);
  EXPECT_EQ(areas.jobs.heading, 2);
  EXPECT_EQ(areas.jobs.first, 3);
  EXPECT_EQ(areas.jobs.rows, 14);
  EXPECT_EQ(areas.hosts.title, 17);
  EXPECT_EQ(areas.hosts.first, 19);
  EXPECT_EQ(areas.hosts.rows, 14);
}

TEST(TopAreas, AShortTableLeavesItsRoomToTheOther) {
  EXPECT_EQ(main_areas(34, 1, 3, 64, TopPane::kJobs).hosts.rows, 25);
  EXPECT_EQ(main_areas(34, 1, 3, 64, TopPane::kJobs).jobs.rows, 3);
  EXPECT_EQ(main_areas(34, 1, 500, 4, TopPane::kJobs).hosts.rows, 4);
  EXPECT_EQ(main_areas(34, 1, 500, 4, TopPane::kJobs).jobs.rows, 24);
  EXPECT_EQ(main_areas(34, 1, 0, 0, TopPane::kJobs).hosts.rows, 1);
}

TEST(TopAreas, BothAreOnTenLines) {
  const MainAreas areas = main_areas(10, 1, 100, 100, TopPane::kHosts);
  EXPECT_EQ(areas.jobs.rows, 2);
  EXPECT_EQ(areas.hosts.rows, 2);
}

TEST(TopAreas, OnlyTheActiveTableIsOnAVerySmallScreen) {
  EXPECT_EQ(main_areas(5, 1, 9, 9, TopPane::kHosts).hosts.rows, 3);
  EXPECT_EQ(main_areas(5, 1, 9, 9, TopPane::kHosts).jobs.rows, 0);
  EXPECT_EQ(main_areas(1, 1, 9, 9, TopPane::kJobs).jobs.rows, 0);
}

// Every line belongs to one thing, for all sizes.
TEST(TopAreas, TablesNeverOverlap) {
  for (int lines = 1; lines < 60; ++lines) {
    for (const int top : {1, 2}) {
      for (const int jobs : {0, 1, 5, 1000}) {
        for (const int hosts : {0, 1, 5, 1000}) {
          const MainAreas areas = main_areas(lines, top, jobs, hosts, TopPane::kJobs);
          if (areas.hosts.rows == 0) continue;
          EXPECT_GE(areas.jobs.rows, 1);
          EXPECT_EQ(areas.jobs.first + areas.jobs.rows, areas.hosts.title) << lines;
          EXPECT_EQ(areas.hosts.first + areas.hosts.rows, lines - 1) << lines;
        }
      }
    }
  }
}

TEST(TopAreas, TheHeadOfADetailGetsAtMostHalf) {
  const DetailAreas areas = detail_areas(24, 1, 100);
  EXPECT_EQ(areas.head_rows, 11);
  EXPECT_EQ(areas.table.heading, 12);
  EXPECT_EQ(areas.table.first, 13);
  EXPECT_EQ(areas.table.rows, 10);
  EXPECT_EQ(detail_areas(24, 1, 3).table.rows, 18);
  EXPECT_EQ(detail_areas(3, 1, 3).table.rows, 0);
}

}  // namespace
}  // namespace muster::cli::top_areas_test
