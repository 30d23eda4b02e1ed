#include "launcherd/store/state_directory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "tests/unit/launcherd/store/store_rig.h"

namespace muster::testing_store::state_directory_test {
namespace {

using launcherd::default_state_directory;
using launcherd::StateDirectory;
using launcherd::StateUse;
using ::testing::HasSubstr;

unsigned mode_of(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

TEST(StateDirectory, DefaultIsBelowTheUsersStateAndHasTheHostsName) {
  base::Environment environment;
  EXPECT_EQ(default_state_directory(environment, "n1").status().code(), Code::kFailedPrecondition);
  environment.set("HOME", "/home/u");
  EXPECT_EQ(*default_state_directory(environment, "n1.site"), "/home/u/.local/state/muster/n1.site");
  environment.set("XDG_STATE_HOME", "relative");  // the XDG specification says to ignore it
  EXPECT_EQ(*default_state_directory(environment, "n1"), "/home/u/.local/state/muster/n1");
  environment.set("XDG_STATE_HOME", "/state");
  EXPECT_EQ(*default_state_directory(environment, "n1"), "/state/muster/n1");
  for (const char* const name : {"", ".", "..", "a/b", "a b", "../x"}) {
    EXPECT_EQ(default_state_directory(environment, name).status().code(), Code::kInvalidArgument) << name;
  }
}

TEST(StateDirectory, IsMadeForItsOwnerAlone) {
  const TempDir temp;
  const auto directory = StateDirectory::open(temp / "a/b/n1");
  ASSERT_TRUE(directory.ok()) << directory.status();
  for (const char* const each : {"a", "a/b", "a/b/n1"}) EXPECT_EQ(mode_of(temp / each), 0700u) << each;
  EXPECT_EQ(mode_of(temp / "a/b/n1/lock"), 0600u);
  EXPECT_EQ(directory->database(), temp / "a/b/n1/jobs.sqlite");
}

TEST(StateDirectory, ALookMakesNothing) {
  const TempDir temp;
  EXPECT_EQ(*StateDirectory::look(temp / "a/b"), StateUse::kMissing);
  EXPECT_FALSE(std::filesystem::exists(temp / "a"));
  {
    const auto directory = StateDirectory::open(temp / "a/b");
    ASSERT_TRUE(directory.ok()) << directory.status();
    EXPECT_EQ(*StateDirectory::look(temp / "a/b"), StateUse::kInUse);
  }
  EXPECT_EQ(*StateDirectory::look(temp / "a/b"), StateUse::kFree);
  ::chmod((temp / "a/b").c_str(), 0755);
  EXPECT_EQ(StateDirectory::look(temp / "a/b").status().code(), Code::kPermissionDenied);
  EXPECT_EQ(StateDirectory::look("a/b").status().code(), Code::kInvalidArgument);
}

TEST(StateDirectory, OthersMayNotEnterIt) {
  const TempDir temp;
  std::filesystem::create_directory(temp / "open");
  ::chmod((temp / "open").c_str(), 0755);
  EXPECT_EQ(StateDirectory::open(temp / "open").status().code(), Code::kPermissionDenied);
  std::filesystem::create_directory(temp / "mine");
  ::chmod((temp / "mine").c_str(), 0700);
  std::filesystem::create_symlink(temp / "mine", temp / "link");
  EXPECT_FALSE(StateDirectory::open(temp / "link").ok());
  EXPECT_EQ(StateDirectory::open("relative").status().code(), Code::kInvalidArgument);
}

TEST(StateDirectory, ASecondLauncherIsRefusedAndToldWhoHoldsIt) {
  const TempDir temp;
  {
    const auto first = StateDirectory::open(temp.path());
    ASSERT_TRUE(first.ok()) << first.status();
    const auto second = StateDirectory::open(temp.path());
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.status().code(), Code::kAlreadyExists);
    EXPECT_THAT(second.status().message(), HasSubstr(fmt::format("launcherd with pid {}:", ::getpid())));
  }
  EXPECT_TRUE(StateDirectory::open(temp.path()).ok());  // the lock is free again
}

// The kernel releases the lock of a killed launcherd, whatever the lock file contains.
TEST(StateDirectory, AKilledLauncherHoldsNothing) {
  const TempDir temp;
  auto pipe = base::make_pipe();
  ASSERT_TRUE(pipe.ok());
  const pid_t child = ::fork();
  if (child == 0) {
    const auto held = StateDirectory::open(temp.path());
    const char answer = held.ok() ? 'y' : 'n';
    const bool is_told = base::write_all_blocking(pipe->second.get(), &answer, 1).ok();
    while (is_told) ::pause();
    ::_exit(1);
  }
  char answer = 0;
  ASSERT_TRUE(base::read_exactly_blocking(pipe->first.get(), &answer, 1).ok());
  EXPECT_EQ(answer, 'y');
  const auto held = StateDirectory::open(temp.path());
  ASSERT_FALSE(held.ok());
  EXPECT_THAT(held.status().message(), HasSubstr(fmt::format("pid {}:", child)));
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(StateDirectory::open(temp.path()).ok());
}

TEST(StateDirectory, DisksThatHostsShareAreKnown) {
  EXPECT_EQ(launcherd::shared_file_system(NFS_SUPER_MAGIC), "NFS");
  EXPECT_EQ(launcherd::shared_file_system(0x0BD00BD0), "Lustre");
  EXPECT_EQ(launcherd::shared_file_system(V9FS_MAGIC), "9P");
  for (const long local : {long{EXT4_SUPER_MAGIC}, long{XFS_SUPER_MAGIC}, long{TMPFS_MAGIC}, long{BTRFS_SUPER_MAGIC},
                           long{OVERLAYFS_SUPER_MAGIC}}) {
    EXPECT_EQ(launcherd::shared_file_system(local), std::nullopt) << local;
  }
}

}  // namespace
}  // namespace muster::testing_store::state_directory_test
