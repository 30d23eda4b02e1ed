#include "cli/top/detail_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/top/top_samples.h"

namespace muster::cli::detail_head_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing_support::kTopTime;
using testing_support::top_host;
using testing_support::top_job;
using testing_support::top_lateness;

TEST(DetailHead, TheImportantLinesOfAJobComeFirst) {
  v1::Job job = top_job("k7");
  job.set_name("night");
  job.mutable_hang()->set_cause("rank 3 sleeps");
  job.set_last_change("generation 1: 8 → 6 ranks");
  *job.add_late() = top_lateness(3, "n3");
  const auto lines = job_head(&job, "k7", "", kTopTime);
  ASSERT_GE(lines.size(), 6U);
  EXPECT_THAT(text_of(lines[0]), StartsWith("job k7: RUNNING for"));
  EXPECT_EQ(text_of(lines[1]), "last change: generation 1: 8 → 6 ranks");
  EXPECT_EQ(text_of(lines[2]), "seems to hang: rank 3 sleeps");
  EXPECT_EQ(lines[2].parts.front().style, TextStyle::kBad);
  EXPECT_THAT(text_of(lines[3]), StartsWith("late: rank 3 (n3)"));
  EXPECT_EQ(lines[3].parts.front().style, TextStyle::kWaiting);
  EXPECT_EQ(text_of(lines[4]), "name: night");
}

TEST(DetailHead, AJobBeforeItsAnswer) {
  EXPECT_EQ(text_of(job_head(nullptr, "k7", "", kTopTime).at(0)), "job k7: waiting for the answer");
  const auto lines = job_head(nullptr, "k7", "no such job", kTopTime);
  EXPECT_EQ(text_of(lines.at(0)), "job k7: no such job");
  EXPECT_EQ(lines.at(0).parts.front().style, TextStyle::kBad);
}

TEST(DetailHead, AHostWithItsLoad) {
  v1::LauncherHost host = top_host("n1");
  host.set_cores(8);
  host.add_gpus()->set_model("A100");
  v1::GpuLoad* const gpu = host.mutable_load()->add_gpus();
  gpu->set_busy_percent(40);
  gpu->set_memory_used_mib(900);
  const auto lines = host_head(&host, "n1");
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(text_of(lines[0]), "host n1: agent up, 2/4 slots used, 0 ranks");
  EXPECT_THAT(text_of(lines[1]), HasSubstr("50%]  8 cores"));
  EXPECT_THAT(text_of(lines[2]), HasSubstr("32.0/64.0G]"));
  EXPECT_THAT(text_of(lines[3]), HasSubstr("40%]  900 MiB used  A100"));
}

TEST(DetailHead, AHostThatIsGone) {
  EXPECT_EQ(text_of(host_head(nullptr, "n9").at(0)), "launcherd has no host n9 now");
}

}  // namespace
}  // namespace muster::cli::detail_head_test
