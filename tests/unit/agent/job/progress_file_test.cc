#include "agent/job/progress_file.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::agent::progress_file_test {
namespace {

using namespace std::chrono_literals;

class ProgressFileTest : public ::testing::Test {
 protected:
  testing_support::TempDir dir_;
  base::Loop loop_;
  int changes_ = 0;
  ProgressFile file_{loop_,
                     [this] {
                       ++changes_;
                       loop_.stop();
                     },
                     std::chrono::seconds(10)};
};

TEST_F(ProgressFileTest, AFileThatIsThereAlreadyIsNoProgress) {
  dir_.write("last", "1");
  ASSERT_TRUE(file_.watch(dir_.path(), "last").ok());
  file_.check();
  EXPECT_EQ(changes_, 0);
}

TEST_F(ProgressFileTest, ANewFileIsProgressOnce) {
  ASSERT_TRUE(file_.watch("/", dir_ / "last").ok());
  file_.check();
  EXPECT_EQ(changes_, 0);
  dir_.write("last", "1");
  file_.check();
  dir_.write("last", "12");
  file_.check();
  EXPECT_EQ(changes_, 1) << "the launcher counts it once";
}

TEST_F(ProgressFileTest, ANewSizeOrTimeIsProgress) {
  dir_.write("size", "1");
  dir_.write("time", "1");
  ASSERT_TRUE(file_.watch(dir_.path(), "size").ok());
  dir_.write("size", "12");
  file_.check();
  EXPECT_EQ(changes_, 1);
  ASSERT_TRUE(file_.watch(dir_.path(), "time").ok());
  std::filesystem::last_write_time(dir_ / "time", std::filesystem::file_time_type::clock::now() + 1h);
  file_.check();
  EXPECT_EQ(changes_, 2);
}

TEST_F(ProgressFileTest, AFileThatIsRemovedIsNot) {
  dir_.write("last", "1");
  ASSERT_TRUE(file_.watch(dir_.path(), "last").ok());
  std::filesystem::remove(dir_ / "last");
  file_.check();
  EXPECT_EQ(changes_, 0);
}

TEST_F(ProgressFileTest, IsSeenWithinASecondOrTwo) {
  ASSERT_TRUE(file_.watch(dir_.path(), "last").ok());
  dir_.write("last", "1");
  const base::Timer late = loop_.after(10s, [this] { loop_.stop(); });
  loop_.run();
  EXPECT_EQ(changes_, 1);
}

TEST_F(ProgressFileTest, WatchesNothingWithoutAName) {
  ASSERT_TRUE(file_.watch(dir_.path(), "").ok());
  file_.check();
  EXPECT_EQ(changes_, 0);
}

}  // namespace
}  // namespace muster::agent::progress_file_test
