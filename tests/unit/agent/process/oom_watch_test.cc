#include "agent/process/oom_watch.h"

#include <unistd.h>

#include <gtest/gtest.h>

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
  EXPECT_FALSE(watch.was_killed(::getpid()));
}

}  // namespace
}  // namespace muster::agent::oom_watch_test
