#include "launcherd/output/counting_sink.h"

#include <gtest/gtest.h>

#include "tests/unit/launcherd/run/no_output.h"

namespace muster::launcherd::counting_sink_test {
namespace {

TEST(CountingSink, CountsTheBytesOfBothStreams) {
  testing_support::NoOutput next;
  CountingSink sink(&next);
  EXPECT_EQ(sink.bytes(), 0U);
  EXPECT_TRUE(sink.write(0, proto::OutputStream::kStdout, "four", 0).ok());
  EXPECT_TRUE(sink.write(7, proto::OutputStream::kStderr, "five5", 0).ok());
  EXPECT_EQ(sink.bytes(), 9U);
}

}  // namespace
}  // namespace muster::launcherd::counting_sink_test
