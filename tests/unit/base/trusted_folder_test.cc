#include "base/trusted_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::base::trusted_folder_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr uid_t kStranger = 4242;

class TrustedFolderTest : public ::testing::Test {
 protected:
  std::string make(const std::string& path, unsigned mode, uid_t owner = ::geteuid()) const {
    const std::string made = dir_ / path;
    EXPECT_TRUE(::mkdir(made.c_str(), 0700) == 0 && ::chown(made.c_str(), owner, ::getegid()) == 0 &&
                ::chmod(made.c_str(), mode) == 0);
    return made;
  }
  std::string link(const std::string& target, const std::string& path, uid_t owner = ::geteuid()) const {
    const std::string made = dir_ / path;
    EXPECT_EQ(::symlink(target.c_str(), made.c_str()), 0);
    EXPECT_EQ(::lchown(made.c_str(), owner, ::getegid()), 0);
    return made;
  }
  static std::string opened(const std::string& path) {
    const auto folder = open_folder_by_trusted_path(path);
    if (!folder.ok()) return folder.status().message();
    char real[4096] = {};
    EXPECT_GT(::readlink(fmt::format("/proc/self/fd/{}", folder->get()).c_str(), real, sizeof real - 1), 0);
    return real;
  }

  testing_support::TempDir dir_;
  const std::string root_ = fs::canonical(dir_.path()).string();
};

TEST_F(TrustedFolderTest, MakesWhatIsMissing) {
  const mode_t before = ::umask(0);
  EXPECT_EQ(opened(root_ + "//a/./b/"), root_ + "/a/b");
  ::umask(before);
  struct stat info {};
  ASSERT_EQ(::stat((root_ + "/a/b").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0755u);
  EXPECT_EQ(opened("/"), "/");
  EXPECT_THAT(opened("a"), HasSubstr("not an absolute path"));
  EXPECT_THAT(opened("/proc/nowhere/x"), HasSubstr("make the folder /proc/nowhere"));
  std::ofstream(root_ + "/plain") << "x";
  EXPECT_THAT(opened(root_ + "/plain/b"), HasSubstr("/plain: something else has this name"));
}

TEST_F(TrustedFolderTest, FollowsLinksOfTheUser) {
  make("there", 0755);
  link("there", "relative");
  link(root_ + "/relative/../there", "absolute");
  EXPECT_EQ(opened(root_ + "/absolute/x"), root_ + "/there/x");
  link("circle", "circle");
  EXPECT_THAT(opened(root_ + "/circle"), HasSubstr("circle"));
  EXPECT_FALSE(open_folder_by_trusted_path(root_ + "/circle").ok());
}

TEST_F(TrustedFolderTest, RefusesWhatAnotherUserCouldPutThere) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder to another user";
  make("tmp", 01777);
  make("tmp/squatted", 0777, kStranger);
  EXPECT_THAT(opened(root_ + "/tmp/squatted/job"),
              HasSubstr("/tmp/squatted belongs to uid 4242, and any user could have put it there"));
  EXPECT_FALSE(fs::exists(root_ + "/tmp/squatted/job"));
  make("target", 0755);
  link(root_ + "/target", "tmp/bobs-link", kStranger);
  EXPECT_THAT(opened(root_ + "/tmp/bobs-link/job"), HasSubstr("/tmp/bobs-link belongs to uid 4242"));
  EXPECT_FALSE(fs::exists(root_ + "/target/job"));
  link(root_ + "/target", "tmp/own-link");
  EXPECT_EQ(opened(root_ + "/tmp/own-link/job"), root_ + "/target/job");
}

TEST_F(TrustedFolderTest, CanRefuseFoldersThatEveryoneCanExchange) {
  make("open", 0777);
  make("tmp", 01777);
  const FolderWalk strict{.made_mode = 0700, .needs_sticky = true};
  EXPECT_THAT(open_folder_by_trusted_path(root_ + "/open/x", strict).status().message(),
              HasSubstr("every user can replace files in"));
  EXPECT_TRUE(open_folder_by_trusted_path(root_ + "/tmp/x", strict).ok());
  EXPECT_TRUE(open_folder_by_trusted_path(root_ + "/open/x").ok());
}

TEST_F(TrustedFolderTest, FilesOfOnesOwnAreSafeInAStickyFolder) {
  const auto check = [](const std::string& path) {
    struct stat info {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    return check_folder_of_own_files(info, path).code();
  };
  EXPECT_EQ(check(make("tmp", 01777)), Code::kOk);
  EXPECT_EQ(check(make("plain", 0755)), Code::kOk);
  EXPECT_EQ(check(make("open", 0777)), Code::kPermissionDenied);
}

TEST_F(TrustedFolderTest, AcceptsAProjectsFolderOfAnotherOwner) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder to another user";
  make("projects", 0755);
  make("projects/lab", 02770, kStranger);
  EXPECT_EQ(opened(root_ + "/projects/lab/job"), root_ + "/projects/lab/job");
}

}  // namespace
}  // namespace muster::base::trusted_folder_test
