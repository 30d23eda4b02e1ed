#include "base/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/env.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::base::file_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class FileTest : public ::testing::Test {
 protected:
  std::string path(const char* name) const { return directory_ / name; }
  static unsigned mode(const std::string& of) {
    struct stat info {};
    EXPECT_EQ(::lstat(of.c_str(), &info), 0);
    return info.st_mode & 07777;
  }
  int entries() const {
    return static_cast<int>(std::distance(std::filesystem::directory_iterator(directory_.path()), {}));
  }

  testing_support::TempDir directory_;
};

TEST_F(FileTest, WritesAndReadsAnyBytes) {
  const std::string content("a\0b\n\xff", 5);
  ASSERT_TRUE(write_file_atomically(path("f"), content).ok());
  EXPECT_EQ(read_file(path("f")).value(), content);
  EXPECT_EQ(mode(path("f")), 0600u);
  ASSERT_TRUE(write_file_atomically(path("f"), "", 0640).ok());
  EXPECT_EQ(read_file(path("f")).value(), "");
  EXPECT_EQ(mode(path("f")) & ~0040u, 0600u) << "0640 under the umask";
  EXPECT_EQ(entries(), 1) << "a temporary file is left";
}

TEST_F(FileTest, WritesDurably) {
  ASSERT_TRUE(write_file_durably(path("f"), "old").ok());
  ASSERT_TRUE(write_file_durably(path("f"), "new").ok());
  EXPECT_EQ(read_file(path("f")).value(), "new");
  EXPECT_EQ(mode(path("f")), 0600u);
  EXPECT_EQ(entries(), 1) << "a temporary file is left";
  EXPECT_FALSE(write_file_durably(path("none/f"), "x").ok());
  ASSERT_TRUE(std::filesystem::create_directory(path("d")));
  EXPECT_FALSE(write_file_durably(path("d"), "x").ok());
  EXPECT_EQ(entries(), 2);
}

TEST_F(FileTest, LimitIsExact) {
  ASSERT_TRUE(write_file_atomically(path("f"), std::string(100, 'x')).ok());
  EXPECT_TRUE(read_file(path("f"), 100).ok());
  EXPECT_EQ(read_file(path("f"), 99).status().code(), Code::kResourceExhausted);
}

TEST_F(FileTest, ReadsProc) {
  EXPECT_THAT(read_file("/proc/self/status").value(), HasSubstr("Name:"));
}

TEST_F(FileTest, ErrorsNameThePath) {
  EXPECT_EQ(read_file(path("none")).status().code(), Code::kNotFound);
  EXPECT_THAT(read_file(path("none")).status().message(), HasSubstr(path("none")));
  EXPECT_FALSE(read_file(directory_.path()).ok());
  EXPECT_FALSE(write_file_atomically(path("none/f"), "x").ok());
  // The target is a directory: the rename fails and the temporary file goes.
  ASSERT_TRUE(std::filesystem::create_directory(path("d")));
  EXPECT_FALSE(write_file_atomically(path("d"), "x").ok());
  EXPECT_EQ(entries(), 1);
}

TEST_F(FileTest, PrivateDirectoryIsMadeOrChecked) {
  ASSERT_TRUE(make_private_directory(path("d")).ok());
  EXPECT_EQ(mode(path("d")), 0700u);
  EXPECT_TRUE(make_private_directory(path("d")).ok());
  ASSERT_EQ(::chmod(path("d").c_str(), 0750), 0);
  const Status open = make_private_directory(path("d"));
  EXPECT_EQ(open.code(), Code::kPermissionDenied);
  EXPECT_THAT(open.message(), AllOf(HasSubstr("mode 0750"), HasSubstr("chmod 700"), Not(HasSubstr("remove"))));
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to give the directory away";
  ASSERT_EQ(::chown(path("d").c_str(), 65534, 65534), 0);
  const Status foreign = make_private_directory(path("d"));
  EXPECT_EQ(foreign.code(), Code::kPermissionDenied);
  EXPECT_THAT(foreign.message(), AllOf(HasSubstr("belongs to uid 65534"), Not(HasSubstr("remove"))));
}

TEST_F(FileTest, PrivateDirectoryIsNoLinkAndNoFile) {
  ASSERT_TRUE(make_private_directory(path("d")).ok());
  std::filesystem::create_symlink(path("d"), path("link"));
  EXPECT_FALSE(make_private_directory(path("link")).ok());
  ASSERT_TRUE(write_file_atomically(path("f"), "x").ok());
  EXPECT_FALSE(make_private_directory(path("f")).ok());
  EXPECT_EQ(make_private_directory(path("none/d")).code(), Code::kNotFound);
}

TEST_F(FileTest, PrivateDirectoryIsMadeThoughAnotherRemovesIt) {
  const std::string shared = path("d");
  std::atomic<bool> is_over = false;
  std::thread remover([&] {
    while (!is_over) ::rmdir(shared.c_str());
  });
  for (int i = 0; i < 20'000; ++i) {
    const Status made = make_private_directory(shared);
    EXPECT_TRUE(made.ok()) << made;
    if (!made.ok()) break;
  }
  is_over = true;
  remover.join();
}

TEST_F(FileTest, PrivateDirectoryOfAnotherUserIsRefused) {
  if (::geteuid() == 0) {
    ASSERT_TRUE(make_private_directory(path("d")).ok());
    ASSERT_EQ(::chown(path("d").c_str(), 65534, 65534), 0);
    EXPECT_EQ(make_private_directory(path("d")).code(), Code::kPermissionDenied);
  } else {
    EXPECT_FALSE(make_private_directory("/root").ok());
  }
}

TEST(HomeDirectory, IsAbsoluteOrAnError) {
  const std::optional<std::string> before = env_var("HOME");
  ASSERT_EQ(::setenv("HOME", "/home/x", 1), 0);
  EXPECT_EQ(home_directory().value(), "/home/x");
  for (const char* bad : {"", "relative"}) {
    ASSERT_EQ(::setenv("HOME", bad, 1), 0);
    EXPECT_FALSE(home_directory().ok()) << bad;
  }
  ASSERT_EQ(::unsetenv("HOME"), 0);
  EXPECT_FALSE(home_directory().ok());
  if (before) ::setenv("HOME", before->c_str(), 1);
}

}  // namespace
}  // namespace muster::base::file_test
