#include "model/job_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::model::job_input_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(JobInput, IsAWordOrARank) {
  EXPECT_EQ(parse_input("auto").value(), JobInput{InputTo::kAuto});
  EXPECT_EQ(parse_input("none").value(), JobInput{InputTo::kNone});
  EXPECT_EQ(parse_input("all").value(), JobInput{InputTo::kAll});
  EXPECT_EQ(parse_input("17").value(), (JobInput{InputTo::kRank, 17}));
  for (const char* bad : {"", "-1", "first", "0x1", "99999999999", "1 "}) EXPECT_FALSE(parse_input(bad).ok()) << bad;
}

TEST(JobInput, NamesARankThatTheJobHas) {
  EXPECT_TRUE(check_input({InputTo::kRank, 3}, 4).ok());
  const auto refused = check_input({InputTo::kRank, 4}, 4);
  EXPECT_EQ(refused.code(), base::Code::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("--stdin 4: unknown rank; the job has 4 (0 to 3)"));
}

TEST(JobInput, ATerminalIsForRank0Alone) {
  for (const InputTo to : {InputTo::kAuto, InputTo::kNone, InputTo::kRank}) {
    EXPECT_TRUE(check_input({to, 0, true}, 4).ok());
  }
  EXPECT_FALSE(check_input({InputTo::kAll, 0, true}, 4).ok());
  EXPECT_FALSE(check_input({InputTo::kRank, 1, true}, 4).ok());
}

TEST(JobInput, ReadersAreThoseThatItNames) {
  EXPECT_THAT(reading_ranks({InputTo::kAuto}, 3), ElementsAre());
  EXPECT_THAT(reading_ranks({InputTo::kNone}, 3), ElementsAre());
  EXPECT_THAT(reading_ranks({InputTo::kAll}, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(reading_ranks({InputTo::kRank, 2}, 3), ElementsAre(2));
  EXPECT_THAT(reading_ranks({InputTo::kNone, 0, true}, 3), ElementsAre(0)) << "its terminal is told of the end";
}

}  // namespace
}  // namespace muster::model::job_input_test
