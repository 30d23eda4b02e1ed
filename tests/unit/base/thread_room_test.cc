#include "base/thread_room.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/unit/support/temp_dir.h"

namespace muster::base::thread_room_test {
namespace {

// A folder that stands for the machine's proc and sys. Its limits have room for all that the tests ask for, but those
// that a test writes.
class LimitsLeaveRoom : public testing::Test {
 protected:
  LimitsLeaveRoom() {
    write("/proc/loadavg", "0.10 0.20 0.30 2/1000 6789\n");
    write("/proc/sys/kernel/threads-max", "60000\n");
    write("/proc/sys/kernel/pid_max", "4194304\n");
    write("/proc/self/cgroup", "0::/user/one\n");
    write("/sys/fs/cgroup/user/one/pids.max", "max\n");
    write("/sys/fs/cgroup/user/pids.max", "500\n");
    write("/sys/fs/cgroup/user/pids.current", "100\n");
  }

  void write(const std::string& path, const std::string& text) { root_.write(path.substr(1), text); }
  bool holds(int threads) { return limits_leave_room(threads, root_.path()); }

  testing_support::TempDir root_;
};

TEST_F(LimitsLeaveRoom, WhereEachLimitIsFarAway) {
  EXPECT_TRUE(holds(20));
}

TEST_F(LimitsLeaveRoom, ButNotAboveTheLimitOfACgroupAbove) {
  EXPECT_TRUE(holds(400));
  EXPECT_FALSE(holds(401));
}

TEST_F(LimitsLeaveRoom, ButNotAboveTheLimitOfTheOwnCgroup) {
  write("/sys/fs/cgroup/user/one/pids.max", "30\n");
  write("/sys/fs/cgroup/user/one/pids.current", "11\n");
  EXPECT_TRUE(holds(19));
  EXPECT_FALSE(holds(20));
}

TEST_F(LimitsLeaveRoom, InTheFirstVersionOfCgroups) {
  write("/proc/self/cgroup", "8:cpu,pids:/job\n7:memory:/elsewhere\n0::/\n");
  std::filesystem::create_directories(root_.path() + "/sys/fs/cgroup/unified");
  write("/sys/fs/cgroup/pids/job/pids.max", "25\n");
  write("/sys/fs/cgroup/pids/job/pids.current", "5\n");
  EXPECT_TRUE(holds(20));
  EXPECT_FALSE(holds(21));
}

TEST_F(LimitsLeaveRoom, ButNotAboveTheLimitsOfTheKernel) {
  write("/proc/sys/kernel/threads-max", "1010\n");
  EXPECT_TRUE(holds(10));
  EXPECT_FALSE(holds(11));
  write("/proc/sys/kernel/threads-max", "60000\n");
  write("/proc/sys/kernel/pid_max", "1005\n");
  EXPECT_FALSE(holds(10));
}

TEST_F(LimitsLeaveRoom, IsFalseWhereALimitCannotBeRead) {
  const char* const files[] = {"/proc/loadavg", "/proc/sys/kernel/threads-max", "/proc/sys/kernel/pid_max",
                               "/proc/self/cgroup"};
  for (const char* const file : files) {
    const std::filesystem::path path(root_.path() + file);
    const std::filesystem::path away(root_ / "away");
    std::filesystem::rename(path, away);
    EXPECT_FALSE(holds(1)) << file;
    std::filesystem::rename(away, path);
  }
  write("/sys/fs/cgroup/user/pids.max", "many\n");
  EXPECT_FALSE(holds(1));
}

// Behind a cgroup namespace that is not this process's own.
TEST_F(LimitsLeaveRoom, IsFalseWhereTheCgroupCannotBeSeen) {
  write("/proc/self/cgroup", "0::/../elsewhere\n");
  EXPECT_FALSE(holds(1));
}

}  // namespace
}  // namespace muster::base::thread_room_test
