#include "agent/unpack/hashed_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::hashed_file_test {
namespace {

// Printed by: printf abc | sha256sum
constexpr std::string_view kHashOfAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(HashedFile, TakesOnlyTheAnnouncedBytes) {
  const testing_support::TempDir folder;
  const base::UniqueFd fd(::open((folder / "f").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  HashedFile file(fd.get(), 3);
  EXPECT_EQ(file.write("a"), "");
  EXPECT_EQ(file.write("bc"), "");
  EXPECT_EQ(file.write("d"), "the agent is longer than 3 bytes");
  EXPECT_EQ(file.check(kHashOfAbc), "");
  EXPECT_EQ(testing_support::read_text(folder / "f"), "abc");
}

TEST(HashedFile, NamesBothHashesIfTheyDiffer) {
  const base::UniqueFd fd(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  HashedFile file(fd.get(), 3);
  EXPECT_EQ(file.write("abc"), "");
  const std::string other(64, '0');
  EXPECT_EQ(file.check(other), "the agent has the hash " + std::string(kHashOfAbc) + " instead of " + other);
}

TEST(HashedFile, RefusesAShortFile) {
  const base::UniqueFd fd(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  HashedFile file(fd.get(), 4);
  EXPECT_EQ(file.write("abc"), "");
  EXPECT_EQ(file.check(kHashOfAbc), "the agent has 3 bytes instead of 4");
}

TEST(HashedFile, ReportsAFullDisk) {
  const base::UniqueFd fd(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  HashedFile file(fd.get(), 3);
  EXPECT_EQ(file.write("abc"), "cannot write the agent: No space left on device");
}

}  // namespace
}  // namespace muster::agent::hashed_file_test
