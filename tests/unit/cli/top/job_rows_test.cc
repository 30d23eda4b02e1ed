#include "cli/top/job_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/top/top_samples.h"

namespace muster::cli::job_rows_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using testing_support::kTopTime;
using testing_support::top_job;
using testing_support::top_lateness;

std::string line_of(const v1::Job& job, int width) {
  return text_of(job_table_lines({&job}, -1, kTopTime, width).at(1));
}

TextStyle style_in(const StyledLine& line, std::string_view text) {
  for (const StyledText& part : line.parts) {
    if (part.text.starts_with(text)) return part.style;
  }
  return TextStyle::kHeading;  // no part of a row has this style
}

TEST(JobRows, AJobThatRuns) {
  EXPECT_EQ(line_of(top_job("k7abcdef"), 80), "k7abcdef  RUNNING      4      -  1 min 40 s  ./train");
}

TEST(JobRows, AJobThatWaitsSaysWhy) {
  v1::Job job = top_job("k7", v1::JOB_STATE_QUEUED);
  job.set_reason("needs 8 slots, 4 are free");
  EXPECT_THAT(line_of(job, 100), HasSubstr("needs 8 slots, 4 are free  ./train"));
}

TEST(JobRows, AJobThatRunsNeedsNoReason) {
  v1::Job job = top_job("k7");
  job.set_reason("all ranks have started");
  EXPECT_THAT(line_of(job, 100), Not(HasSubstr("all ranks")));
}

TEST(JobRows, ALateRankHasAColumn) {
  v1::Job job = top_job("k7");
  EXPECT_THAT(text_of(job_table_lines({&job}, -1, kTopTime, 100).front()), Not(HasSubstr("late")));
  *job.add_late() = top_lateness(3, "n3");
  EXPECT_THAT(text_of(job_table_lines({&job}, -1, kTopTime, 100).front()), HasSubstr("late"));
  EXPECT_THAT(line_of(job, 100), HasSubstr("n3 +12 ms"));
}

TEST(JobRows, LatenessByChanceIsNotShown) {
  v1::Job job = top_job("k7");
  *job.add_late() = top_lateness(3, "n3");
  job.mutable_late(0)->set_late(20);
  EXPECT_EQ(late_text(job), "");
  job.mutable_late(0)->set_late(30);
  EXPECT_EQ(late_text(job), "n3 +12 ms");
  job.mutable_late(0)->set_operations(5);
  EXPECT_EQ(late_text(job), "") << "too few operations";
}

TEST(JobRows, AHangIsBad) {
  v1::Job job = top_job("k7");
  job.mutable_hang()->set_cause("rank 3 is not in allreduce");
  const StyledLine line = job_table_lines({&job}, -1, kTopTime, 100).at(1);
  EXPECT_EQ(style_in(line, "hangs: rank 3"), TextStyle::kBad);
}

TEST(JobRows, ARowThatHasNotArrived) {
  EXPECT_EQ(text_of(job_table_lines({nullptr}, 0, kTopTime, 10).at(1)), "…         ");
}

TEST(JobRows, NamesAndCommandsOfOthersAreHarmless) {
  v1::Job job = top_job("k7");
  job.set_name("x\x1b]0;evil\x07");
  job.set_command(0, "\x1b[31m");
  job.set_user("eve\n");
  const std::string line = line_of(job, 200);
  EXPECT_THAT(line, HasSubstr("x\\x1b]0;evil\\x07"));
  EXPECT_EQ(line.find('\x1b'), std::string::npos);
  EXPECT_EQ(line.find('\n'), std::string::npos);
}

TEST(JobRows, NarrowTablesKeepIdAndState) {
  EXPECT_THAT(line_of(top_job("k7abcdef"), 20), StartsWith("k7abcdef  RUNNING"));
}

TEST(JobRows, EveryStateHasAStyle) {
  EXPECT_EQ(style_of(v1::JOB_STATE_RUNNING), TextStyle::kGood);
  EXPECT_EQ(style_of(v1::JOB_STATE_QUEUED), TextStyle::kWaiting);
  EXPECT_EQ(style_of(v1::JOB_STATE_STARTING), TextStyle::kNews);
  EXPECT_EQ(style_of(v1::JOB_STATE_FAILED), TextStyle::kBad);
  EXPECT_EQ(style_of(v1::JOB_STATE_LOST), TextStyle::kBad);
  EXPECT_EQ(style_of(v1::JOB_STATE_SUCCEEDED), TextStyle::kFaint);
  EXPECT_EQ(style_of(v1::JOB_STATE_UNSPECIFIED), TextStyle::kPlain);
}

v1::RankStatus rank_of(int number, v1::RankState state) {
  v1::RankStatus rank;
  rank.set_rank(number);
  rank.set_host("n1");
  rank.set_state(state);
  rank.set_pid(4000 + number);
  return rank;
}

TEST(JobRows, RanksWithCoresGpusAndLateness) {
  v1::Job job = top_job("k7");
  *job.add_late() = top_lateness(1, "n1");
  v1::RankStatus rank = rank_of(1, v1::RANK_STATE_RUNNING);
  rank.mutable_binding()->set_cpus("0-3");
  rank.mutable_binding()->add_gpus(2);
  rank.mutable_binding()->add_devices("GPU-1");
  const auto lines = rank_table_lines(job, {&rank}, -1, 100);
  EXPECT_EQ(text_of(lines.at(0)), "rank  host   pid  cpus  gpus  score    late  state");
  EXPECT_EQ(text_of(lines.at(1)), "   1  n1    4001  0-3   2      0.10  +12 ms  running");
}

TEST(JobRows, ARankThatFailedIsBad) {
  const v1::Job job = top_job("k7");
  v1::RankStatus rank = rank_of(1, v1::RANK_STATE_ENDED);
  rank.mutable_end()->set_kind(v1::RANK_END_KIND_EXITED);
  rank.mutable_end()->set_exit_code(3);
  EXPECT_EQ(style_in(rank_table_lines(job, {&rank}, -1, 100).at(1), "exit code 3"), TextStyle::kBad);
  rank.mutable_end()->set_exit_code(0);
  EXPECT_EQ(rank_table_lines(job, {&rank}, -1, 100).at(1).parts.back().style, TextStyle::kFaint);
}

}  // namespace
}  // namespace muster::cli::job_rows_test
