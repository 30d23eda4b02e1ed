#include "agent/proc/working_process.h"

#include <map>

#include <gtest/gtest.h>

namespace muster::agent::working_process_test {
namespace {

ProcessInfo process(pid_t pid, pid_t parent, const std::string& command, char state = 'S') {
  ProcessInfo info;
  info.pid = pid;
  info.parent = parent;
  info.command = command;
  info.state = state;
  return info;
}

// Returns the pid of the working process, or 0. `channels` are those of processes that wait.
pid_t found(const std::vector<ProcessInfo>& table, const std::map<pid_t, std::string>& channels = {}) {
  const ProcessInfo* const process = working_process(table, 10, [&](pid_t pid) {
    const auto channel = channels.find(pid);
    return channel == channels.end() ? std::string() : channel->second;
  });
  return process == nullptr ? 0 : process->pid;
}

TEST(WorkingProcess, IsTheRankItselfWithoutChildren) {
  EXPECT_EQ(found({process(10, 1, "python3"), process(11, 1, "python3")}), 10);
  EXPECT_EQ(found({process(10, 1, "sh")}), 10);
}

TEST(WorkingProcess, IsNoneOnceTheRankHasEnded) {
  EXPECT_EQ(found({process(11, 10, "python3")}), 0);
  EXPECT_EQ(found({process(10, 1, "sh", 'Z')}), 0);
}

TEST(WorkingProcess, IsTheEndOfAChainOfWrappers) {
  EXPECT_EQ(found({process(10, 1, "sh"), process(11, 10, "bash"), process(12, 11, "python3")}), 12);
  EXPECT_EQ(found({process(10, 1, "Apptainer runti"), process(11, 10, "python3")}), 11);
}

TEST(WorkingProcess, IsTheChildForWhichAnyProgramWaits) {
  const std::vector<ProcessInfo> table = {process(10, 1, "wrapper"), process(11, 10, "python3")};
  EXPECT_EQ(found(table, {{10, "do_wait"}}), 11);
  EXPECT_EQ(found(table, {{10, "do_poll"}}), 10);
  EXPECT_EQ(found(table), 10) << "its wait channel is hidden";
}

TEST(WorkingProcess, IsAPythonProgramThatWaitsForAProgram) {
  const std::map<pid_t, std::string> waits = {{10, "do_wait"}};
  EXPECT_EQ(found({process(10, 1, "python3"), process(11, 10, "sleep")}, waits), 10);
  EXPECT_EQ(found({process(10, 1, "python3"), process(11, 10, "python3.11")}, waits), 11);
}

TEST(WorkingProcess, IsTheParentOfSeveralChildren) {
  EXPECT_EQ(found({process(10, 1, "sh"), process(11, 10, "python3"), process(12, 10, "python3")}), 10);
  EXPECT_EQ(found({process(10, 1, "sh"), process(11, 10, "python3", 'Z'), process(12, 10, "python3")}), 12)
      << "a dead child does not count";
}

TEST(WorkingProcess, IsAShellThatRunsOrIsStopped) {
  EXPECT_EQ(found({process(10, 1, "sh", 'R'), process(11, 10, "python3")}), 10);
  EXPECT_EQ(found({process(10, 1, "sh", 'T'), process(11, 10, "python3")}), 10);
}

TEST(WorkingProcess, IsFoundInACycleOfReusedPids) {
  EXPECT_NE(found({process(10, 11, "sh"), process(11, 10, "sh")}), 0);
}

}  // namespace
}  // namespace muster::agent::working_process_test
