#include "launcherd/web/write_token.h"

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::write_token_test {
namespace {

TEST(WriteToken, IsMadeOnceAndForItsOwnerAlone) {
  testing_support::TempDir directory;
  const std::string path = directory / "http-token";
  const auto made = load_or_make_write_token(path);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->size(), 64U);
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  EXPECT_EQ(load_or_make_write_token(path).value(), *made);
  EXPECT_NE(load_or_make_write_token(directory / "other").value(), *made);
}

TEST(WriteToken, AFileThatOthersMayReadIsRefused) {
  testing_support::TempDir directory;
  const std::string path = directory / "http-token";
  ASSERT_TRUE(load_or_make_write_token(path).ok());
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  EXPECT_EQ(load_or_make_write_token(path).status().code(), base::Code::kPermissionDenied);
}

TEST(WriteToken, AFileWithoutATokenIsRefused) {
  testing_support::TempDir directory;
  const std::string path = directory / "http-token";
  for (const std::string& content : {std::string(), std::string("short\n"), std::string(64, 'X')}) {
    ASSERT_TRUE(base::write_file_atomically(path, content).ok());
    EXPECT_EQ(load_or_make_write_token(path).status().code(), base::Code::kDataLoss) << content;
  }
}

}  // namespace
}  // namespace muster::launcherd::write_token_test
