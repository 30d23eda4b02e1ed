#include "agent/process/oom_watch.h"

#include <unistd.h>

#include <fstream>

#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::agent::oom_watch_test {
namespace {

TEST(OomLineTest, FindsThePidInTheKernelsWords) {
  EXPECT_EQ(pid_in_oom_line("3,1234,5678901,-;Out of memory: Killed process 4711 (python3) total-vm:1kB, anon-rss:1kB"),
            4711);
  EXPECT_EQ(pid_in_oom_line("3,1,2,-;Memory cgroup out of memory: Killed process 12 (a) b) total-vm:1kB"), 12);
}

TEST(OomLineTest, OtherLinesNameNobody) {
  for (const char* line :
       {"", "6,1,2,-;eth0: link up", "3,1,2,-;Killed process 12 (x)",
        "4,1,2,-;python3 invoked oom-killer: gfp_mask=0x1", "3,1,2,-;Out of memory: Killed process x"}) {
    EXPECT_EQ(pid_in_oom_line(line), 0) << line;
  }
}

TEST(OomWatchTest, NobodyWasKilled) {
  OomWatch watch(nullptr);
  EXPECT_NE(watch.judge(::getpid()), OomVerdict::kYes);
  EXPECT_EQ(watch.take_others(), 0U);
}

class OomSourcesTest : public ::testing::Test {
 protected:
  OomSourcesTest() {
    count(0, 7);
    sources_ = {.memory_events = dir_ / "memory.oom_control", .vmstat = dir_ / "vmstat", .log = dir_ / "none"};
  }
  void count(int under_our_limit, int on_the_machine) {
    std::ofstream(dir_ / "memory.oom_control")
        << "oom_kill_disable 0\nunder_oom 0\noom_kill " << under_our_limit << "\n";
    std::ofstream(dir_ / "vmstat") << "nr_free_pages 1\noom_kill " << on_the_machine << "\nswpin_zero 0\n";
  }

  testing_support::TempDir dir_;
  OomSources sources_;
};

// In a PID namespace of the host's own the numbers in the kernel's log are of no use.
TEST_F(OomSourcesTest, CountsKillsUnderTheLimitOfThisProcess) {
  OomWatch watch(nullptr, sources_);
  EXPECT_EQ(watch.judge(11), OomVerdict::kNo);
  count(2, 9);
  EXPECT_EQ(watch.judge(11), OomVerdict::kYes);
  EXPECT_EQ(watch.take_others(), 1U) << "a child of a rank";
  EXPECT_EQ(watch.take_others(), 0U);
  EXPECT_EQ(watch.judge(12), OomVerdict::kNo);
}

TEST_F(OomSourcesTest, SuspectsWhenOnlyTheMachineCountsKills) {
  sources_.memory_events = "";
  OomWatch watch(nullptr, sources_);
  EXPECT_EQ(watch.judge(11), OomVerdict::kNo);
  count(0, 8);
  EXPECT_EQ(watch.judge(11), OomVerdict::kPerhaps);
  EXPECT_EQ(watch.judge(12), OomVerdict::kNo);
}

TEST(FindMemoryEventsTest, VersionsOneAndTwo) {
  constexpr const char* kV1 = "30 24 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
  EXPECT_EQ(find_memory_events(kV1, "9:memory:/user/a\n0::/\n"), "/sys/fs/cgroup/memory/user/a/memory.oom_control");
  EXPECT_EQ(find_memory_events(kV1, "9:memory:/\n"), "/sys/fs/cgroup/memory/memory.oom_control");
  constexpr const char* kV2 = "30 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
  EXPECT_EQ(find_memory_events(kV2, "0::/user/a\n"), "/sys/fs/cgroup/user/a/memory.events");
  EXPECT_EQ(find_memory_events("", "9:memory:/\n"), "");
}

}  // namespace
}  // namespace muster::agent::oom_watch_test
