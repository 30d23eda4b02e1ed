#include "agent/unpack/place.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>

#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::agent::place_test {
namespace {

constexpr const char* kOwn = ".agent-1111111111111111-x86_64.r4nd";
constexpr const char* kAgent = "agent-1111111111111111-x86_64";

class PlaceTest : public ::testing::Test {
 protected:
  PlaceTest() { own_ = folder_.write(kOwn, "unpacker"); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_.path()), {}));
  }

  testing_support::TempDir folder_;
  std::string own_;
};

TEST_F(PlaceTest, KeepsOnlyTheAgent) {
  {
    Place place;
    int fd = -1;
    ASSERT_EQ(place.open(own_), "");
    ASSERT_EQ(place.create(fd), "");
    ASSERT_EQ(::write(fd, "old", 3), 3);
    ASSERT_EQ(place.create(fd), "");  // the second source begins anew
    ASSERT_EQ(::write(fd, "agent", 5), 5);
    ASSERT_EQ(place.keep(kAgent), "");
    EXPECT_EQ(place.path_of(kAgent), folder_ / kAgent);
  }
  EXPECT_EQ(files(), 1U);
  EXPECT_EQ(testing_support::read_text(folder_ / kAgent), "agent");
  struct stat info {};
  ASSERT_EQ(::stat((folder_ / kAgent).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0700U);
}

TEST_F(PlaceTest, RemovesBothFilesAfterAFailure) {
  {
    Place place;
    int fd = -1;
    ASSERT_EQ(place.open(own_), "");
    ASSERT_EQ(place.create(fd), "");
    EXPECT_EQ(files(), 2U);
  }
  EXPECT_EQ(files(), 0U);
}

TEST_F(PlaceTest, LeavesAProgramThatWasStartedByHandAlone) {
  const std::string path = folder_.write("muster-unpack", "unpacker");
  {
    Place place;
    EXPECT_EQ(place.open(path), "this program is started by hvdrun and launcherd only");
    EXPECT_NE(place.open("muster-unpack"), "");
  }
  EXPECT_EQ(files(), 2U);
}

TEST_F(PlaceTest, ReportsWhatFails) {
  Place place;
  int fd = -1;
  ASSERT_EQ(place.open("/proc/nowhere/.agent-x"), "");
  EXPECT_EQ(place.create(fd), "cannot create /proc/nowhere/.agent-x_new: No such file or directory");
  EXPECT_EQ(place.keep("agent-x"), "cannot rename the agent to /proc/nowhere/agent-x: No such file or directory");
}

}  // namespace
}  // namespace muster::agent::place_test
