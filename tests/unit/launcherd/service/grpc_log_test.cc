// Errors that gRPC logs appear in the launcher's log, at most one line a minute. gRPC logs through gpr_log().
#include "launcherd/service/grpc_log.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"

namespace muster::grpc_log_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

base::MonotonicTime time_of_test{};

class GrpcLogTest : public ::testing::Test {
 protected:
  // gRPC logs nothing before this call.
  void SetUp() override { ::grpc_init(); }
  void TearDown() override { ::grpc_shutdown(); }

  launcherd::GrpcErrors::OnError into(std::vector<std::string>& lines) {
    return [&lines](const std::string& line) { lines.push_back(line); };
  }

  static base::MonotonicTime now() { return time_of_test; }

  std::vector<std::string> lines_;
};

TEST_F(GrpcLogTest, PassesOnErrorsAlone) {
  const launcherd::GrpcErrors errors(into(lines_), now);
  gpr_log(GPR_INFO, "a stranger has come");
  gpr_log(GPR_DEBUG, "and gone");
  EXPECT_THAT(lines_, IsEmpty());
  gpr_log(GPR_ERROR, "Failed accept4: %s", "Too many open files");
  EXPECT_THAT(lines_, ElementsAre("gRPC: Failed accept4: Too many open files"));
}

TEST_F(GrpcLogTest, PassesOnOneLineAMinuteAndCountsTheOthers) {
  const launcherd::GrpcErrors errors(into(lines_), now);
  for (int i = 0; i < 5; ++i) gpr_log(GPR_ERROR, "number %d", i);
  EXPECT_THAT(lines_, ElementsAre("gRPC: number 0"));
  time_of_test += std::chrono::minutes(1);
  gpr_log(GPR_ERROR, "number 5");
  time_of_test += std::chrono::minutes(1);
  gpr_log(GPR_ERROR, "number 6");
  EXPECT_THAT(lines_, ElementsAre("gRPC: number 0", "gRPC: number 5 (4 more since the last line)", "gRPC: number 6"));
}

TEST_F(GrpcLogTest, AsksTheNewestAndNoneThatHasEnded) {
  std::vector<std::string> newer;
  {
    const launcherd::GrpcErrors errors(into(lines_), now);
    {
      const launcherd::GrpcErrors newest(into(newer), now);
      gpr_log(GPR_ERROR, "to the newest");
    }
    gpr_log(GPR_ERROR, "to the other");
  }
  gpr_log(GPR_ERROR, "to none");
  EXPECT_THAT(newer, ElementsAre("gRPC: to the newest"));
  EXPECT_THAT(lines_, ElementsAre("gRPC: to the other"));
}

TEST_F(GrpcLogTest, ShortensLongMessagesAndShowsControlCharacters) {
  const launcherd::GrpcErrors errors(into(lines_), now);
  const std::string message = "\x1b[2J" + std::string(5000, 'x');
  gpr_log(GPR_ERROR, "%s", message.c_str());
  ASSERT_THAT(lines_, SizeIs(1));
  EXPECT_LT(lines_[0].size(), 400U);
  EXPECT_EQ(lines_[0].find('\x1b'), std::string::npos) << lines_[0];
}

}  // namespace
}  // namespace muster::grpc_log_test
