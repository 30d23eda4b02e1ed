#include "cli/verbs/job_report.h"

#include <gtest/gtest.h>

namespace muster::cli::job_report_test {
namespace {

TEST(JobReport, RefusesMistakesInTheCommandLine) {
  EXPECT_EQ(run_job_report("report", {"--outptu", "x"}), 2);
  EXPECT_EQ(run_job_report("report", {"-o"}), 2);
}

TEST(JobReport, TheHelpShowsSeveralJobs) {
  const CommandDoc& doc = job_report_doc();
  ASSERT_GE(doc.examples.size(), 3U);
  EXPECT_NE(doc.description.find("With several jobs"), std::string_view::npos);
}

}  // namespace
}  // namespace muster::cli::job_report_test
