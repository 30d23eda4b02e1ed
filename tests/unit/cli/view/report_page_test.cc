#include "cli/view/report_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/view/job_events.h"

namespace muster::cli::report_page_test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_support::JobEvents;

ReportedJob job_of(const std::string& id, int ranks, int run_ms, int exit_code = 0) {
  ReportedJob reported;
  reported.job.set_id(id);
  reported.job.set_size(ranks);
  JobEvents events;
  events.starting(0, {"n1"}, ranks);
  for (int rank = 0; rank < ranks; ++rank) events.up(1000, rank);
  for (int rank = 0; rank < ranks; ++rank) events.exited(1000 + run_ms, rank, exit_code);
  events.ended(1000 + run_ms, exit_code, exit_code == 0 ? -1 : 0);
  reported.events = events.events;
  return reported;
}

TEST(Scaling, ComparesWithTheFewestRanks) {
  const auto points = scaling_of({job_of("c", 4, 3000), job_of("a", 1, 10000), job_of("b", 2, 5000)});
  ASSERT_EQ(points.size(), 3U);
  EXPECT_EQ(points[0].job + points[1].job + points[2].job, "abc");
  EXPECT_DOUBLE_EQ(points[0].efficiency, 1);
  EXPECT_DOUBLE_EQ(points[1].speedup, 2);
  EXPECT_DOUBLE_EQ(points[1].efficiency, 1);
  EXPECT_NEAR(points[2].speedup, 10.0 / 3, 1e-9);
  EXPECT_NEAR(points[2].efficiency, 10.0 / 12, 1e-9);
}

TEST(Scaling, LeavesOutJobsThatFailedOrChanged) {
  ReportedJob changed = job_of("x", 2, 100);
  changed.events[2].mutable_generation_began()->set_number(1);
  EXPECT_TRUE(scaling_of({job_of("f", 2, 100, 1), changed}).empty());
}

TEST(ReportPage, ShowsOneJob) {
  ReportedJob reported = job_of("k7", 2, 500, 3);
  reported.job.add_command("sh");
  reported.job.add_command("<script>alert(1)</script>");
  const std::string page = report_page({reported});
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  EXPECT_THAT(page, HasSubstr("<h1>Job k7</h1>"));
  EXPECT_THAT(page, HasSubstr("<title>rank 0 on n1: exit code 3, 1.00 s to 1.50 s</title><rect class=\"kRootCause\""));
  EXPECT_THAT(page, HasSubstr("<title>rank 1 on n1: exit code 3, 1.00 s to 1.50 s</title><rect class=\"kFailed\""));
  EXPECT_THAT(page, HasSubstr("<td>2 on 1 host</td>")) << "the job itself lists no hosts";
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;"));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("<h2>Scaling")));
}

TEST(ReportPage, DrawsTheScalingOfSeveralJobs) {
  const std::string page = report_page({job_of("a", 1, 10000), job_of("b", 2, 5000)});
  EXPECT_THAT(page, HasSubstr("<h1>2 jobs</h1>"));
  EXPECT_THAT(page, HasSubstr("<tr><td>b</td><td>2</td><td>5.00 s</td><td>2.00</td><td>100 %</td></tr>"));
}

TEST(ReportPage, AJobWithoutEventsHasAPage) {
  ReportedJob reported;
  reported.job.set_id("q1");
  EXPECT_THAT(report_page({reported}), HasSubstr("time line of phases and ranks"));
}

}  // namespace
}  // namespace muster::cli::report_page_test
