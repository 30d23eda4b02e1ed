#include "launcherd/hosts/time_limit.h"

#include <time.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"

namespace muster::launcherd::time_limit_test {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

const base::WallTime kNow = base::WallTime(seconds(1'800'000'000));

class AllocationEnd : public ::testing::Test {
 protected:
  // Returns seconds from now, "none", or the message of an error.
  std::string end() {
    const auto found = allocation_end(
        environment_,
        [this](const std::vector<std::string>& argv) -> base::Result<std::string> {
          asked_ = base::join(argv, " ");
          return answer_;
        },
        kNow);
    if (!found.ok()) return found.status().message();
    if (!*found) return "none";
    return std::to_string(std::chrono::duration_cast<seconds>(**found - kNow).count());
  }

  base::Environment environment_;
  base::Result<std::string> answer_{std::string()};
  std::string asked_;
};

TEST_F(AllocationEnd, NoSchedulerIsNotAsked) {
  EXPECT_EQ(end(), "none");
  EXPECT_EQ(asked_, "");
}

TEST_F(AllocationEnd, VariablesNeedNoQuestion) {
  environment_.set("SLURM_JOB_ID", "7");
  environment_.set("SLURM_JOB_END_TIME", "1800000090");
  EXPECT_EQ(end(), "90");
  environment_.unset("SLURM_JOB_END_TIME");
  environment_.set("COBALT_ENDTIME", "1800000060");
  EXPECT_EQ(end(), "60");
  EXPECT_EQ(asked_, "");
}

TEST_F(AllocationEnd, Slurm) {
  environment_.set("SLURM_JOB_ID", "7");
  for (const auto& [answer, expected] : std::vector<std::pair<std::string, std::string>>{
           {"29:30\n", "1770"}, {"1:00:00\n", "3600"}, {"2-00:00:01\n", "172801"}, {"UNLIMITED\n", "none"}}) {
    answer_ = answer;
    EXPECT_EQ(end(), expected) << answer;
  }
  EXPECT_EQ(asked_, "squeue -h -j 7 -o %L");
  answer_ = std::string("soon\n");
  EXPECT_THAT(end(), HasSubstr("squeue -h -j 7 -o %L answered 'soon'"));
  answer_ = base::error(base::Code::kUnavailable, "squeue is down");
  EXPECT_EQ(end(), "squeue is down");
}

TEST_F(AllocationEnd, PbsCountsFromTheStart) {
  environment_.set("PBS_JOBID", "12.pbs");
  const std::time_t start = 1'800'000'000 - 100;
  char text[64];
  std::tm parts{};
  ::localtime_r(&start, &parts);
  ASSERT_GT(::strftime(text, sizeof text, "%a %b %d %H:%M:%S %Y", &parts), 0U);
  answer_ = fmt::format("Job Id: 12.pbs\n    Resource_List.walltime = 00:30:00\n    stime = {}\n", text);
  EXPECT_EQ(end(), "1700");
  EXPECT_EQ(asked_, "qstat -f 12.pbs");
  answer_ = std::string("    resources_used.walltime = 00:00:30\n    Resource_List.walltime = 00:30:00\n");
  EXPECT_EQ(end(), "1770");
  answer_ = std::string("Job Id: 12.pbs\n");
  EXPECT_EQ(end(), "none");
  answer_ = std::string("    Resource_List.walltime = long\n");
  EXPECT_THAT(end(), HasSubstr("answered 'long'"));
}

TEST_F(AllocationEnd, LsfAndFlux) {
  environment_.set("LSB_JOBID", "3");
  answer_ = std::string("1:29 L\n");
  EXPECT_EQ(end(), "5340");
  answer_ = std::string("-\n");
  EXPECT_EQ(end(), "none");
  environment_.unset("LSB_JOBID");
  environment_.set("FLUX_URI", "local:///x");
  answer_ = std::string("120\n");
  EXPECT_EQ(end(), "120");
  EXPECT_EQ(asked_, "flux job timeleft");
}

TEST(ClockTime, FormsAndMistakes) {
  EXPECT_EQ(parse_clock_time("59"), seconds(59));
  EXPECT_EQ(parse_clock_time("1:00"), seconds(60));
  EXPECT_EQ(parse_clock_time("1-02:03:04"), seconds(93'784));
  for (const char* bad :
       {"", ":", "1:", "a", "-1", "1-2", "1-02:03", "1:2:3:4", "99999999999", "1e3", "9999999-00:00:00"}) {
    EXPECT_EQ(parse_clock_time(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace muster::launcherd::time_limit_test
