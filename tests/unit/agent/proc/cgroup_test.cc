#include "agent/proc/cgroup.h"

#include <gtest/gtest.h>

#include "base/ids.h"

namespace muster::agent::cgroup_test {
namespace {

constexpr char kHybrid[] =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

std::string find(const std::string& mountinfo, const std::string& self) {
  const auto found = find_own_cgroup(mountinfo, self);
  return found.ok() ? *found : "error: " + found.status().message();
}

TEST(FindOwnCgroupTest, PureAndHybridMachines) {
  EXPECT_EQ(find("27 1 0:25 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup rw,nsdelegate\n", "0::/user.slice/a.scope\n"),
            "/sys/fs/cgroup/user.slice/a.scope");
  EXPECT_EQ(find(kHybrid, "9:name=systemd:/\n4:memory:/x\n0::/\n"), "/sys/fs/cgroup/unified");
  EXPECT_EQ(find(kHybrid, "0::/a/b\n"), "/sys/fs/cgroup/unified/a/b");
}

TEST(FindOwnCgroupTest, ContainersShowAPartOfTheTree) {
  const std::string mount = "27 1 0:25 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
  EXPECT_EQ(find(mount, "0::/docker/abc/x\n"), "/sys/fs/cgroup/x");
  EXPECT_EQ(find(mount, "0::/docker/abc\n"), "/sys/fs/cgroup");
  EXPECT_EQ(find(mount, "0::/other\n"), "error: our cgroup /other is not under the mounted /docker/abc");
  EXPECT_EQ(find(kHybrid, "0::/../x\n"), "error: our cgroup lies outside of this container's view");
}

TEST(FindOwnCgroupTest, MountPointsMayHoldBlanks) {
  EXPECT_EQ(find("27 1 0:25 / /a\\040b rw - cgroup2 cgroup rw\n", "0::/c\n"), "/a b/c");
}

TEST(FindOwnCgroupTest, MachinesWithoutIt) {
  EXPECT_EQ(find("35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "0::/\n"),
            "error: no cgroup v2 is mounted");
  EXPECT_EQ(find(kHybrid, "4:memory:/x\n"), "error: this process is in no cgroup v2");
}

TEST(CgroupTest, IsMadeAndRemoved) {
  auto cgroup = Cgroup::create("muster-test-" + base::random_hex(4));
  if (!cgroup.ok()) GTEST_SKIP() << cgroup.status();
  EXPECT_FALSE(cgroup->is_populated());
  EXPECT_TRUE(cgroup->pids().empty());
  EXPECT_TRUE(cgroup->remove().ok());
  EXPECT_FALSE(Cgroup::open(cgroup->path()).ok());
}

}  // namespace
}  // namespace muster::agent::cgroup_test
