#include "agent/probe/mounts.h"

#include <gtest/gtest.h>

namespace muster::agent::mounts_test {
namespace {

constexpr std::string_view kMounts =
    "overlay / overlay rw,relatime 0 0\n"
    "server:/home /home nfs4 rw,vers=4.2 0 0\n"
    "tmpfs /tmp tmpfs rw 0 0\n"
    "/dev/sda1 /tmp ext4 rw 0 0\n"
    "disk /scratch\\040space/a\\134b xfs rw 0 0\n"
    "short line\n"
    "tmpfs /dev/shm tmpfs rw 0 0";

TEST(Mounts, TheLongestMountPointAboveCounts) {
  EXPECT_EQ(file_system_of(kMounts, "/home/alice"), "nfs4");
  EXPECT_EQ(file_system_of(kMounts, "/home"), "nfs4");
  EXPECT_EQ(file_system_of(kMounts, "/homes/alice"), "overlay");
  EXPECT_EQ(file_system_of(kMounts, "/"), "overlay");
  EXPECT_EQ(file_system_of(kMounts, "/dev/shm"), "tmpfs");
}

TEST(Mounts, OfTwoAtOnePlaceTheLaterIsOnTop) {
  EXPECT_EQ(file_system_of(kMounts, "/tmp/x"), "ext4");
}

TEST(Mounts, OctalEscapes) {
  EXPECT_EQ(file_system_of(kMounts, "/scratch space/a\\b/c"), "xfs");
  EXPECT_EQ(file_system_of("a /x\\04 tmpfs\n", "/x\\04/y"), "tmpfs");  // no escape
}

TEST(Mounts, NothingIsKnown) {
  EXPECT_EQ(file_system_of("", "/tmp"), "");
  EXPECT_EQ(file_system_of("a /x tmpfs\n", "/y"), "");
  EXPECT_EQ(file_system_of("a /x tmpfs\n", ""), "");
}

}  // namespace
}  // namespace muster::agent::mounts_test
