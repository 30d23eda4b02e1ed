#include "cli/verbs/copy_archive.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::cli::copy_archive_test {
namespace {

// Copies the content of one folder into another one.
void copy(const std::string& from, const std::string& to) {
  auto pack = CopyArchive::pack(from);
  auto unpack = CopyArchive::unpack(to);
  ASSERT_TRUE(pack.ok() && unpack.ok());
  char bytes[4096];
  for (ssize_t n = ::read(pack->fd(), bytes, sizeof bytes); n > 0; n = ::read(pack->fd(), bytes, sizeof bytes)) {
    ASSERT_TRUE(base::write_all_blocking(unpack->fd(), bytes, static_cast<std::size_t>(n)).ok());
  }
  EXPECT_TRUE(pack->wait_blocking().ok());
  EXPECT_TRUE(unpack->wait_blocking().ok());
}

TEST(CopyArchive, PacksAndUnpacksAFolder) {
  const testing_support::TempDir root;
  ASSERT_EQ(::mkdir((root / "from").c_str(), 0750), 0);
  ASSERT_EQ(::mkdir((root / "from/sub").c_str(), 0700), 0);
  ASSERT_EQ(::mkdir((root / "to").c_str(), 0700), 0);
  ASSERT_TRUE(base::write_file_atomically(root / "from/sub/file", "content", 0640).ok());
  copy(root / "from", root / "to");
  EXPECT_EQ(base::read_file(root / "to/sub/file").value(), "content");
  struct stat info {};
  ASSERT_EQ(::stat((root / "to").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0750U);
}

TEST(CopyArchive, DropsOwnersAndSetuidBits) {
  const testing_support::TempDir root;
  ASSERT_EQ(::mkdir((root / "from").c_str(), 0750), 0);
  ASSERT_EQ(::mkdir((root / "to").c_str(), 0700), 0);
  ASSERT_TRUE(base::write_file_atomically(root / "from/tool", "content", 0755).ok());
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown((root / "from/tool").c_str(), 1234, 1234), 0);
  }
  ASSERT_EQ(::chmod((root / "from/tool").c_str(), 06755), 0);
  copy(root / "from", root / "to");
  struct stat info {};
  ASSERT_EQ(::stat((root / "to/tool").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0755U);
  EXPECT_EQ(info.st_uid, ::geteuid());
}

TEST(CopyArchive, IgnoresTheUsersOptionsForTar) {
  const testing_support::TempDir root;
  ASSERT_EQ(::mkdir((root / "from").c_str(), 0750), 0);
  ASSERT_EQ(::mkdir((root / "to").c_str(), 0700), 0);
  ::setenv("TAR_OPTIONS", "--no-such-option", 1);
  copy(root / "from", root / "to");
  ::unsetenv("TAR_OPTIONS");
}

TEST(CopyArchive, ReportsThatTarFails) {
  const testing_support::TempDir root;
  auto pack = CopyArchive::pack(root / "nothing");
  ASSERT_TRUE(pack.ok());
  EXPECT_EQ(pack->wait_blocking().message(), "tar failed here with exit code 2");
}

TEST(CopyArchive, EndsTarWithItself) {
  const testing_support::TempDir root;
  auto unpack = CopyArchive::unpack(root.path());  // tar waits for an archive that never comes
  EXPECT_TRUE(unpack.ok());
}

}  // namespace
}  // namespace muster::cli::copy_archive_test
