// What is told of tensors that wait for ranks, and when.
#include "collectives/engine/stall_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::collectives::stall_watch_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Late = std::vector<Negotiation::Late>;

class StallReportTest : public testing::Test {
 protected:
  StallReport::Verdict check(const Late& late, seconds at) {
    return report_.check(late, base::MonotonicTime{} + at, [](int rank) { return std::to_string(rank) + " (n2)"; });
  }
  StallReport report_{{.warning = seconds(60), .shutdown = seconds(200)}};
};

TEST_F(StallReportTest, AfterTheTimeItNamesTensorAndRanksAndAgainOnlyAfterAsLong) {
  const Late late{{"conv1", {1, 3}}};
  EXPECT_THAT(check(late, seconds(1000)).warning, IsEmpty());
  EXPECT_THAT(check(late, seconds(1059)).warning, IsEmpty());
  EXPECT_THAT(check(late, seconds(1061)).warning, HasSubstr("'conv1' for 61 s, not submitted by ranks 1 (n2), 3 (n2)"));
  EXPECT_THAT(check(late, seconds(1070)).warning, IsEmpty());
  EXPECT_THAT(check(late, seconds(1122)).warning, HasSubstr("for 122 s"));
}

TEST_F(StallReportTest, WhatIsDoneBeginsAnew) {
  const Late late{{"conv1", {1}}};
  EXPECT_THAT(check(late, seconds(0)).warning, IsEmpty());
  EXPECT_THAT(check({}, seconds(59)).warning, IsEmpty());
  EXPECT_THAT(check(late, seconds(61)).warning, IsEmpty());
  EXPECT_THAT(check(late, seconds(122)).warning, HasSubstr("for 61 s, not submitted by rank 1 (n2)"));
}

TEST_F(StallReportTest, ManyTensorsAreCounted) {
  Late late;
  for (int i = 0; i < 9; ++i) late.push_back({"t" + std::to_string(i), {0}});
  check(late, seconds(0));
  const std::string warning = check(late, seconds(60)).warning;
  EXPECT_THAT(warning, HasSubstr("'t5'"));
  EXPECT_THAT(warning, Not(HasSubstr("'t6'")));
  EXPECT_THAT(warning, HasSubstr("and 3 more"));
}

TEST_F(StallReportTest, TheEngineEndsAfterTheShutdownTime) {
  const Late late{{"conv1", {1}}};
  EXPECT_THAT(check(late, seconds(0)).shutdown, IsEmpty());
  EXPECT_THAT(check(late, seconds(199)).shutdown, IsEmpty());
  EXPECT_THAT(check(late, seconds(200)).shutdown, HasSubstr("'conv1' for 200 s, not submitted by rank 1 (n2)"));
}

TEST(IdleTimeTest, IsShortEnoughForTheTimesThatAreSet) {
  EXPECT_EQ(idle_time({}), milliseconds(10'000));
  EXPECT_EQ(idle_time({.warning = seconds(4)}), milliseconds(1000));
  EXPECT_EQ(idle_time({.warning = seconds(60), .shutdown = seconds(2)}), milliseconds(500));
  EXPECT_EQ(idle_time({.warning = milliseconds(0)}), milliseconds(50));
  EXPECT_EQ(idle_time({.is_checked = false, .warning = seconds(1)}), milliseconds(10'000));
}

}  // namespace
}  // namespace muster::collectives::stall_watch_test
