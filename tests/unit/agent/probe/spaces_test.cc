#include "agent/probe/spaces.h"

#include <gtest/gtest.h>

namespace muster::agent::spaces_test {
namespace {

TEST(Spaces, OfThisHost) {
  const auto spaces = read_spaces("/tmp", "/nonexistent/home");
  ASSERT_EQ(spaces.size(), 3u);
  EXPECT_EQ(spaces[0].purpose() + " " + spaces[0].path(), "session /tmp");
  EXPECT_EQ(spaces[0].failure(), "");
  EXPECT_TRUE(spaces[0].writable());
  EXPECT_FALSE(spaces[0].read_only());
  EXPECT_GT(spaces[0].total_bytes(), 0);
  EXPECT_GE(spaces[0].total_bytes(), spaces[0].free_bytes());
  EXPECT_NE(spaces[0].file_system(), "");
  EXPECT_NE(spaces[1].failure().find("/nonexistent/home"), std::string::npos);
  EXPECT_EQ(spaces[2].purpose() + " " + spaces[2].path(), "shm /dev/shm");
}

TEST(Spaces, WithoutAHome) {
  EXPECT_EQ(read_spaces("/tmp", "").size(), 2u);
}

TEST(Spaces, ProcIsNotWritable) {
  const auto spaces = read_spaces("/proc/self", "");
  EXPECT_EQ(spaces[0].file_system(), "proc");
}

}  // namespace
}  // namespace muster::agent::spaces_test
