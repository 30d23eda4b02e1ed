#include "cli/hosts/program_main.h"

#include <system_error>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cli::program_main_test {
namespace {

using ::testing::StartsWith;

TEST(ProgramMain, ReturnsTheCodeOfItsBody) {
  EXPECT_EQ(run_program("prog", [](const base::Environment&) { return 7; }), 7);
}

TEST(ProgramMain, ReportsThatNoThreadStarted) {
  testing::internal::CaptureStderr();
  const int code = run_program("prog", [](const base::Environment&) -> int {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  });
  EXPECT_EQ(code, 125);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), StartsWith("prog: "));
}

}  // namespace
}  // namespace muster::cli::program_main_test
