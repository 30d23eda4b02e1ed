#include "cli/top/job_pager.h"

#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace muster::cli::job_pager_test {
namespace {

// A launcherd with numbered jobs. Its tokens are rows.
class NumberedJobs {
 public:
  explicit NumberedJobs(std::int64_t count) : count_(count) {}

  base::Result<v1::ListJobsResponse> list(const v1::ListJobsRequest& request) {
    ++calls;
    sent_filter = request.filter();
    const std::int64_t first = request.page_token().empty() ? 0 : std::stol(request.page_token());
    const std::int64_t last = std::min({first + std::min(request.page_size(), longest_page), count_});
    v1::ListJobsResponse answer;
    for (std::int64_t row = first; row < last; ++row) answer.add_jobs()->set_id(fmt::format("j{}", row));
    answer.set_total(count_);
    if (last < count_) answer.set_next_page_token(fmt::format("{}", last));
    jobs_sent += answer.jobs_size();
    return answer;
  }
  void add(std::int64_t count) { count_ += count; }

  int calls = 0;
  int jobs_sent = 0;
  int longest_page = 1000;
  std::string sent_filter{};

 private:
  std::int64_t count_;
};

JobPager pager_of(NumberedJobs& jobs) {
  return JobPager([&jobs](const v1::ListJobsRequest& request) { return jobs.list(request); });
}

void expect_rows(const base::Result<JobRows>& rows, std::int64_t first, std::int64_t last) {
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  ASSERT_FALSE(rows->jobs.empty());
  EXPECT_LE(rows->first, first);
  EXPECT_GE(rows->first + std::ssize(rows->jobs), last);
  for (std::int64_t i = 0; i < std::ssize(rows->jobs); ++i) {
    EXPECT_EQ(rows->jobs[static_cast<std::size_t>(i)].id(), fmt::format("j{}", rows->first + i));
  }
}

TEST(JobPager, OnlyTheWantedRowsAreAskedFor) {
  NumberedJobs jobs(10'000);
  JobPager pager = pager_of(jobs);
  const auto rows = pager.read({}, 0, 120);
  expect_rows(rows, 0, 120);
  EXPECT_EQ(rows->total, 10'000);
  EXPECT_EQ(jobs.calls, 1);
  EXPECT_EQ(jobs.jobs_sent, 200);
}

TEST(JobPager, ARowFarDownIsFoundOnceAndThenKnown) {
  NumberedJobs jobs(10'000);
  JobPager pager = pager_of(jobs);
  expect_rows(pager.read({}, 9'850, 150), 9'850, 10'000);
  EXPECT_LE(jobs.calls, 12);
  jobs.calls = 0;
  jobs.jobs_sent = 0;
  expect_rows(pager.read({}, 9'860, 140), 9'860, 10'000);
  EXPECT_EQ(jobs.calls, 1);
  EXPECT_LE(jobs.jobs_sent, 200);
}

TEST(JobPager, PagesMayBeShorterThanAsked) {
  NumberedJobs jobs(1'000);
  jobs.longest_page = 7;
  JobPager pager = pager_of(jobs);
  expect_rows(pager.read({}, 300, 50), 300, 350);
}

TEST(JobPager, AnotherListForgetsTheTokens) {
  NumberedJobs jobs(500);
  JobPager pager = pager_of(jobs);
  expect_rows(pager.read({}, 300, 10), 300, 310);
  jobs.calls = 0;
  expect_rows(pager.read({.filter = "x"}, 300, 10), 300, 310);
  EXPECT_EQ(jobs.calls, 2) << "one call before the wanted page";
  EXPECT_EQ(jobs.sent_filter, "x");
}

TEST(JobPager, NewJobsMoveTheListByTime) {
  NumberedJobs jobs(500);
  JobPager pager = pager_of(jobs);
  const JobList newest{.order = v1::JOB_ORDER_UNSPECIFIED};
  expect_rows(pager.read(newest, 300, 10), 300, 310);
  jobs.add(5);
  const auto rows = pager.read(newest, 300, 10);
  expect_rows(rows, 300, 310);
  EXPECT_EQ(rows->total, 505);
}

TEST(JobPager, AListThatHasBecomeShorterHasNoSuchRows) {
  NumberedJobs jobs(500);
  JobPager pager = pager_of(jobs);
  expect_rows(pager.read({}, 400, 10), 400, 410);
  jobs.add(-480);
  const auto rows = pager.read({}, 400, 10);
  ASSERT_TRUE(rows.ok());
  EXPECT_TRUE(rows->jobs.empty());
  EXPECT_EQ(rows->total, 20);
}

TEST(JobPager, PassesErrorsOn) {
  JobPager pager([](const v1::ListJobsRequest&) -> base::Result<v1::ListJobsResponse> {
    return base::invalid_argument("filter: too long");
  });
  EXPECT_EQ(pager.read({}, 0, 10).status().message(), "filter: too long");
}

}  // namespace
}  // namespace muster::cli::job_pager_test
