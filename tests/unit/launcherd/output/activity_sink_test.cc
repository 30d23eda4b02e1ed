#include "launcherd/output/activity_sink.h"

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

}  // namespace
}  // namespace muster::launcherd::activity_sink_test
