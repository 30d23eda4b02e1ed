#include "launcherd/output/activity_sink.h"

#include <string>

#include <gtest/gtest.h>

#include "tests/unit/launcherd/run/no_output.h"

namespace muster::launcherd::activity_sink_test {
namespace {

using proto::OutputStream;

TEST(ActivitySink, CountsWritesOfRanks) {
  testing_support::NoOutput next;
  ActivitySink sink(&next);
  EXPECT_EQ(sink.writes(), 0u);
  EXPECT_TRUE(sink.write(0, OutputStream::kStdout, "step 1\n", 0).ok());
  EXPECT_TRUE(sink.write(1, OutputStream::kStderr, "muster: a rank is late\n", 0).ok());
  EXPECT_EQ(sink.writes(), 1u);
}

TEST(ActivitySink, WarningsOfLibmusterAreNoActivity) {
  EXPECT_FALSE(shows_activity(OutputStream::kStderr, "muster: one\nmuster: two\n"));
  EXPECT_FALSE(shows_activity(OutputStream::kStderr, "muster: without an end"));
  EXPECT_TRUE(shows_activity(OutputStream::kStderr, "muster: one\nepoch 3\n"));
  EXPECT_TRUE(shows_activity(OutputStream::kStdout, "muster: on stdout\n"));
  EXPECT_TRUE(shows_activity(OutputStream::kStderr, "x"));
}

TEST(ActivitySink, WarningsOfHorovodAreNoActivity) {
  const std::string warning =
      "[2026-11-29 03:40:04.123456: W /tmp/pip-req-build/horovod/common/stall_inspector.cc:107] One or more tensors "
      "were "
      "submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for "
      "more than 60 seconds. This may indicate that different ranks are trying to submit different tensors.\n";
  EXPECT_FALSE(shows_activity(OutputStream::kStderr, warning));
  EXPECT_FALSE(shows_activity(OutputStream::kStderr, warning + "Missing ranks:\n0: [grad/17, grad/18 ...]\n12: [b]\n"));
  EXPECT_TRUE(shows_activity(OutputStream::kStderr, warning + "Missing ranks:\n0: [grad/17]\nepoch 3\n"));
  EXPECT_TRUE(shows_activity(OutputStream::kStderr, "Missing ranks:\n0: [grad/17]\n"));
  EXPECT_TRUE(shows_activity(OutputStream::kStderr, "3: [0.25, 0.5]\n"));
}

}  // namespace
}  // namespace muster::launcherd::activity_sink_test
