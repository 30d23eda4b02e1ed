#include "agent/commands/reading_targets.h"

#include <fcntl.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace muster::agent::reading_targets_test {
namespace {

TEST(ReadingTargets, ParsesRanksInOrder) {
  const auto targets = parse_reading_targets({"3:42", "0:41"});
  ASSERT_TRUE(targets.ok()) << targets.status();
  const std::vector<std::pair<int, pid_t>> expected = {{3, 42}, {0, 41}};
  EXPECT_EQ(targets->ranks, expected);
  EXPECT_FALSE(targets->is_native);
}

TEST(ReadingTargets, OwnsMemories) {
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GT(fd, 0);
  {
    auto targets = parse_reading_targets({"--native", fmt::format("--memory=42:{}", fd), "3:42"});
    ASSERT_TRUE(targets.ok()) << targets.status();
    EXPECT_TRUE(targets->is_native);
    EXPECT_FALSE(targets->take_memory(7).valid());
    EXPECT_EQ(targets->take_memory(42).get(), fd);
    EXPECT_FALSE(targets->take_memory(42).valid()) << "it was taken";
  }
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1) << "it is closed";
}

TEST(ReadingTargets, ParsesWhomToAsk) {
  const auto plain = parse_reading_targets({"3:42"});
  EXPECT_FALSE(plain->asks_libraries || plain->asks_nccl);
  EXPECT_TRUE(parse_reading_targets({"--libraries", "3:42"})->asks_libraries);
  EXPECT_TRUE(parse_reading_targets({"--nccl", "3:42"})->asks_nccl);
  EXPECT_EQ(plain->session_dir, "");
  EXPECT_EQ(parse_reading_targets({"--session=/tmp/a b", "3:42"})->session_dir, "/tmp/a b");
}

TEST(ReadingTargets, RefusesOtherArguments) {
  for (const char* const argument :
       {"", "x", "3", "3:", "3:0", "3:-1", "1:2:3", "--memory=", "--memory=3", "--other"}) {
    EXPECT_FALSE(parse_reading_targets({argument}).ok()) << argument;
  }
}

}  // namespace
}  // namespace muster::agent::reading_targets_test
