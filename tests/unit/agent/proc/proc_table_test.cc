#include "agent/proc/proc_table.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include <gtest/gtest.h>

namespace muster::agent::proc_table_test {
namespace {

ProcessInfo process(pid_t pid, pid_t parent) {
  ProcessInfo info;
  info.pid = pid;
  info.parent = parent;
  return info;
}

std::vector<pid_t> pids(const std::vector<ProcessInfo>& infos) {
  std::vector<pid_t> numbers;
  for (const ProcessInfo& info : infos) numbers.push_back(info.pid);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

TEST(ParseStatTest, TheCommandMayHoldAnything) {
  const auto info = parse_stat("42 (a) b) (c) S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 99 100\n");
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->pid, 42);
  EXPECT_EQ(info->command, "a) b) (c");
  EXPECT_EQ(info->state, 'S');
  EXPECT_EQ(info->parent, 7);
  EXPECT_EQ(info->group, 8);
  EXPECT_EQ(info->session, 9);
  EXPECT_EQ(info->start_time, 12345U);
  EXPECT_EQ(info->cpu_ticks, 26U);
}

TEST(ParseStatTest, HalfALineIsNothing) {
  for (const char* text :
       {"", "42", "42 (a", "42 (a) ", "42 (a) S 1 2", "x (a) S 7 8 9 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 5"}) {
    EXPECT_FALSE(parse_stat(text).has_value()) << text;
  }
}

TEST(DescendantsTest, WalksTheTreeAndSparesSubtrees) {
  const std::vector<ProcessInfo> table{process(1, 0),   process(10, 1),  process(11, 10), process(12, 11),
                                       process(13, 10), process(14, 13), process(20, 1)};
  EXPECT_EQ(pids(descendants(table, 10)), (std::vector<pid_t>{11, 12, 13, 14}));
  EXPECT_EQ(pids(descendants(table, 10, {13})), (std::vector<pid_t>{11, 12}));
  EXPECT_TRUE(descendants(table, 20).empty());
}

TEST(DescendantsTest, ACycleEnds) {
  EXPECT_EQ(pids(descendants({process(2, 3), process(3, 2)}, 3)), (std::vector<pid_t>{2}));
}

TEST(ProcTableTest, FindsItselfAndItsAncestors) {
  const auto self = read_process(::getpid());
  ASSERT_TRUE(self.has_value());
  EXPECT_EQ(self->parent, ::getppid());
  EXPECT_LE(self->start_time, ticks_since_boot());
  const auto line = ancestors(::getpid());
  ASSERT_GE(line.size(), 2U);
  EXPECT_EQ(line[0], ::getpid());
  EXPECT_EQ(line[1], ::getppid());
  EXPECT_FALSE(read_process(0).has_value());
}

TEST(ProcTableTest, SignalsOnlyTheProcessThatWasSeen) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(60);
    while (true) ::pause();
  }
  auto info = read_process(pid);
  ASSERT_TRUE(info.has_value());
  ProcessInfo other = *info;
  ++other.start_time;
  EXPECT_FALSE(signal_process(other, SIGKILL));
  EXPECT_EQ(::waitpid(pid, nullptr, WNOHANG), 0);
  EXPECT_TRUE(signal_process(*info, SIGKILL));
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, SIGKILL);
  EXPECT_FALSE(signal_process(*info, SIGKILL));
}

}  // namespace
}  // namespace muster::agent::proc_table_test
