#include "launcherd/stage/staging.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "tests/unit/launcherd/stage/staging_fixture.h"

namespace muster::launcherd::staging_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(StagingTest, AFolderGoesToEveryDiskOnce) {
  const std::string big(300'000, 'x');
  put("src/a", "one");
  put("src/b/c", big);
  put("src/b/empty", "");
  fs::create_symlink("a", root_ / "src/l");
  fs::create_directories(root_ / "src/hollow");
  ASSERT_TRUE(stage({"d1", "d2", "d2"}, "src", "/data/in").ok());
  for (const char* disk : {"d1", "d2"}) {
    const std::string at = std::string(disk) + "/data/in/";
    EXPECT_EQ(content(at + "a"), "one");
    EXPECT_EQ(content(at + "b/c"), big);
    EXPECT_TRUE(fs::is_empty(root_ / (at + "b/empty")));
    EXPECT_EQ(fs::read_symlink(root_ / (at + "l")), "a");
    EXPECT_TRUE(fs::is_directory(root_ / (at + "hollow")));
    EXPECT_FALSE(has_marks(disk));
  }
  EXPECT_EQ(sent_[10], big.size() + 3);
  EXPECT_EQ(sent_[11], big.size() + 3);
  EXPECT_EQ(sent_[12], 0u);
  EXPECT_THAT(lines_, ElementsAre(AllOf(HasSubstr("3 of 3 files"), HasSubstr("on n1, n2"))));
}

TEST_F(StagingTest, AHostWhoseDiskHangsIsNamed) {
  put("src/a", "one");
  limits_ = {.period = std::chrono::milliseconds(20), .silence = std::chrono::seconds(2)};
  hung_agent_ = 11;
  const base::Status status = stage({"d1", "d2"}, "src", "/data/in");
  EXPECT_EQ(status.code(), base::Code::kDeadlineExceeded);
  EXPECT_THAT(status.message(), AllOf(StartsWith("n2: --stage: no answer for"), HasSubstr("/data/in")));
}

// A large file takes a long time.
TEST_F(StagingTest, ASilentHostGetsTheTimeThatItsDiskNeeds) {
  put("src/a", std::string(60, 'x'));  // allows one minute
  limits_ = {.period = std::chrono::milliseconds(20), .silence = std::chrono::seconds(2), .slowest_disk = 1};
  late_ = std::chrono::seconds(3);
  const base::Status status = stage({"d1"}, "src", "/data/in");
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(content("d1/data/in/a").size(), 60U);
}

TEST_F(StagingTest, OnlyWhatHasChangedIsSentAgain) {
  put("src/a", "one");
  put("src/b", "two");
  put("src/c", "three");
  ASSERT_TRUE(stage({"d1"}, "src", "/in").ok());
  put("src/b", "zwo");                                                                             // same size
  fs::last_write_time(root_ / "src/c", fs::file_time_type::clock::now() - std::chrono::hours(5));  // same content
  ASSERT_TRUE(stage({"d1"}, "src", "/in").ok());
  EXPECT_EQ(sent_[10], 3u);
  EXPECT_EQ(content("d1/in/b"), "zwo");
  EXPECT_EQ(fs::last_write_time(root_ / "d1/in/c"), fs::last_write_time(root_ / "src/c"));
  ASSERT_TRUE(stage({"d1"}, "src", "/in").ok());
  EXPECT_EQ(sent_[10], 0u);
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("3 files, all present already")));
}

TEST_F(StagingTest, AFileHasItsNameOrAnother) {
  put("src/a", "one");
  ASSERT_TRUE(stage({"d1"}, "src/a", "/in/b").ok());
  EXPECT_EQ(content("d1/in/b"), "one");
  ASSERT_TRUE(stage({"d1"}, "src/a", "/in/").ok());
  EXPECT_EQ(content("d1/in/a"), "one");
}

TEST_F(StagingTest, ALinkToAFileKeepsItsNameAndIsReadThrough) {
  put("real/b", "one");
  fs::create_directories(root_ / "src");
  fs::create_symlink("../real/b", root_ / "src/a");
  ASSERT_TRUE(stage({"d1"}, "src/a", "/in/").ok());
  EXPECT_EQ(content("d1/in/a"), "one");
  EXPECT_FALSE(fs::is_symlink(root_ / "d1/in/a"));
  ASSERT_TRUE(stage({""}, "src/a", "/src/a").ok());
  EXPECT_TRUE(fs::is_symlink(root_ / "src/a"));
  EXPECT_EQ(sent_[10], 0u);
}

TEST_F(StagingTest, TheSourceItselfIsLeftAlone) {
  put("src/a", "one");
  ASSERT_TRUE(stage({"", ""}, "src", "/src").ok());
  EXPECT_EQ(sent_[10] + sent_[11], 0u);
  EXPECT_EQ(content("src/a"), "one");
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("the hosts share it, so nothing was sent")));
  EXPECT_FALSE(has_marks("src"));
}

TEST_F(StagingTest, ManyFiles) {
  for (int i = 0; i < 1'000; ++i) put("src/" + std::to_string(i % 10) + "/" + std::to_string(i), std::to_string(i));
  ASSERT_TRUE(stage({"d1", "d2"}, "src", "/in").ok());
  EXPECT_EQ(content("d2/in/9/999"), "999");
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("1000 of 1000 files")));
}

TEST_F(StagingTest, AFileThatIsReplacedMeanwhileIsAnErrorAndNoMixture) {
  put("src/a", std::string(300'000, 'x'));
  on_data_ = [this](const v1::StageData& data) {
    if (data.offset() > 0) return;
    put("new", std::string(300'000, 'y'));
    fs::last_write_time(root_ / "new", fs::last_write_time(root_ / "src/a"));
    fs::rename(root_ / "new", root_ / "src/a");
  };
  EXPECT_THAT(stage({"d1"}, "src", "/in").message(), HasSubstr("src/a changed while it was copied"));
  EXPECT_FALSE(fs::exists(root_ / "d1/in/a"));
}

// Some files of the kernel report no useful size.
TEST_F(StagingTest, AFileThatIsShorterThanItsSizeIsAnError) {
  const char* const source = "/sys/devices/system/cpu/online";
  if (!fs::exists(source)) GTEST_SKIP() << "no " << source;
  EXPECT_THAT(stage({"d1"}, source, "/in/x").message(), HasSubstr("is shorter than the file system reports"));
  EXPECT_FALSE(fs::exists(root_ / "d1/in/x"));
}

TEST_F(StagingTest, LaunchersKeysAreNoFilesOfAJob) {
  put("state/keys/ca.pem", "secret");
  put("src/a", "one");
  fs::create_symlink("../state/keys/ca.pem", root_ / "src/key");
  for (const char* source : {"state", "state/keys", "state/keys/ca.pem", "", "src/key"}) {
    EXPECT_THAT(stage({"d1"}, source, "/in").message(), HasSubstr("launcherd's state and keys")) << source;
  }
  EXPECT_EQ(sent_[10], 0u);
  EXPECT_TRUE(stage({"d1"}, "src", "/in").ok());  // the link is kept as it is
}

// The data for all hosts exceeds what may be on the way at once.
TEST_F(StagingTest, ManyHostsShareTheRoomThereIs) {
  constexpr std::size_t kSize = 800'000;
  put("src/a", std::string(kSize, 'x'));
  std::vector<std::string> disks;
  for (int i = 0; i < 80; ++i) disks.push_back("d" + std::to_string(i));
  ASSERT_TRUE(stage(disks, "src", "/in").ok());
  for (const std::string& disk : disks) EXPECT_EQ(fs::file_size(root_ / disk / "in/a"), kSize);
}

TEST_F(StagingTest, FailuresNameHostAndPath) {
  put("src/a", "one");
  put("d2/in/a/b", "in the way");
  EXPECT_THAT(stage({"d1", "d2"}, "src", "/in").message(),
              AllOf(StartsWith("n2: --stage: "), HasSubstr("/in/a is a folder on that host")));
  EXPECT_THAT(stage({"d1"}, "nothing", "/in").message(), HasSubstr("nothing"));
  EXPECT_FALSE(has_marks("d1"));
}

TEST(ScanStageSource, AStopEndsIt) {
  const std::atomic<bool> stop = true;
  EXPECT_EQ(scan_stage_source(::testing::TempDir(), "", &stop).status().code(), base::Code::kCancelled);
}

TEST(ScanStageSource, TooManyLevelsAreAnError) {
  const fs::path root = fs::path(::testing::TempDir()) / ("muster-deep-" + std::to_string(::getpid()));
  fs::path deep = root;
  for (int i = 0; i < 220; ++i) deep /= "d";
  fs::create_directories(deep);
  EXPECT_THAT(scan_stage_source(root.string()).status().message(), HasSubstr("is too deep"));
  fs::remove_all(root);
}

TEST(StageDirectory, OfFilesAndFolders) {
  StageTree file;
  file.entries.emplace_back().set_path("f");
  std::string name;
  EXPECT_EQ(stage_directory("/a/b", file, name), "/a");
  EXPECT_EQ(name, "b");
  EXPECT_EQ(stage_directory("/a/", file, name), "/a");
  EXPECT_EQ(name, "f");
  EXPECT_EQ(stage_directory("/b", file, name), "/");
  const StageTree folder{.is_folder = true};
  EXPECT_EQ(stage_directory("/a/b/", folder, name), "/a/b");
}

}  // namespace
}  // namespace muster::launcherd::staging_test
