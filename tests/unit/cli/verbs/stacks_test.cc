#include "cli/verbs/stacks.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/unique_fd.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::cli::stacks_test {
namespace {

using testing_support::TempDir;

TEST(StacksPicture, ReplacesAFile) {
  const TempDir dir;
  const std::string path = dir.write("stacks.svg", "a longer old picture");
  ASSERT_TRUE(write_picture(path, "new").ok());
  EXPECT_EQ(*base::read_file(path), "new");
  ASSERT_TRUE(write_picture(dir / "fresh.svg", "new").ok());
  EXPECT_EQ(*base::read_file(dir / "fresh.svg"), "new");
}

// Root could replace /dev/null, so a file that is not regular stays.
TEST(StacksPicture, WritesIntoWhatIsNoFile) {
  const TempDir dir;
  const std::string path = dir / "fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const base::UniqueFd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(reader.valid());
  ASSERT_TRUE(write_picture(path, "new").ok());
  char text[3];
  ASSERT_EQ(::read(reader.get(), text, sizeof text), 3);
  EXPECT_EQ(std::string_view(text, 3), "new");
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_TRUE(S_ISFIFO(info.st_mode));
}

TEST(StacksPicture, IsRefusedIfItsPathIsAFolder) {
  const TempDir dir;
  EXPECT_FALSE(write_picture(dir / ".", "new").ok());
}

}  // namespace
}  // namespace muster::cli::stacks_test
