#include "cli/verbs/trace.h"

#include <gtest/gtest.h>

namespace muster::cli::trace_test {
namespace {

TEST(Trace, RefusesWrongWords) {
  EXPECT_EQ(run_trace("trace", {"--outptu"}), 2);
  EXPECT_EQ(run_trace("trace", {"a", "b"}), 2);
  EXPECT_EQ(run_trace("trace", {"--help"}), 0);
}

}  // namespace
}  // namespace muster::cli::trace_test
