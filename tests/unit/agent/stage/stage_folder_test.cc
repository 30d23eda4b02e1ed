#include "agent/stage/stage_folder.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::agent::stage_folder_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StageFolderTest : public ::testing::Test {
 protected:
  StageFolderTest() { fs::create_directories(root_); }
  ~StageFolderTest() override { fs::remove_all(root_); }

  static StageItem file(const std::string& path, std::uint64_t size,
                        std::int64_t mtime_ns = 1'500'000'000'000'000'001) {
    return {.path = path, .mode = 0640, .size = size, .mtime_ns = mtime_ns};
  }
  static StageItem folder(const std::string& path) {
    return {.path = path, .kind = StageItem::Kind::kFolder, .mode = 0750};
  }
  static StageItem link(const std::string& path, const std::string& target) {
    return {.path = path, .kind = StageItem::Kind::kLink, .target = target};
  }
  std::string content(const std::string& path) const {
    std::stringstream text;
    text << std::ifstream(root_ / path).rdbuf();
    return text.str();
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(root_)) {
      found.push_back(entry.path().lexically_relative(root_).string());  // a link by its own name
    }
    std::ranges::sort(found);
    return found;
  }

  const fs::path root_ = fs::path(::testing::TempDir()) / ("muster-stage-" + std::to_string(::getpid()));
  StageFolder folder_ = *StageFolder::open((root_ / "x/y").string());
};

TEST_F(StageFolderTest, MakesItsFolderWithParents) {
  EXPECT_TRUE(fs::is_directory(root_ / "x/y"));
  EXPECT_FALSE(StageFolder::open("relative").ok());
  std::ofstream(root_ / "plain") << "x";
  EXPECT_THAT(StageFolder::open((root_ / "plain/y").string()).status().message(), HasSubstr("plain"));
}

TEST_F(StageFolderTest, AFileComesWholeWithTimeAndMode) {
  ASSERT_EQ(folder_.check(file("a/b", 6))->verdict, StageVerdict::kContent);
  ASSERT_TRUE(folder_.write(file("a/b", 6), 0, "one", false).ok());
  EXPECT_FALSE(fs::exists(root_ / "x/y/a/b"));
  ASSERT_TRUE(folder_.write(file("a/b", 6), 3, "two", true).ok());
  EXPECT_EQ(content("x/y/a/b"), "onetwo");
  struct stat info {};
  ASSERT_EQ(::stat((root_ / "x/y/a/b").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
  EXPECT_EQ(info.st_mtim.tv_sec, 1'500'000'000);
  EXPECT_EQ(info.st_mtim.tv_nsec, 1);
  EXPECT_EQ(folder_.check(file("a/b", 6))->verdict, StageVerdict::kRight);
  EXPECT_THAT(names(), ElementsAre("x", "x/y", "x/y/a", "x/y/a/b"));
}

TEST_F(StageFolderTest, AnotherTimeAsksForTheContentByItsDigest) {
  ASSERT_TRUE(folder_.write(file("b", 3), 0, "abc", true).ok());
  const StageItem later = file("b", 3, 7);
  const auto check = folder_.check(later);
  ASSERT_EQ(check->verdict, StageVerdict::kUncertain);
  EXPECT_EQ(check->digest.substr(0, 4), "\xba\x78\x16\xbf");  // FIPS 180-2's first example
  ASSERT_TRUE(folder_.keep(later).ok());
  EXPECT_EQ(folder_.check(later)->verdict, StageVerdict::kRight);
  EXPECT_EQ(folder_.check(file("b", 4))->verdict, StageVerdict::kContent);
}

TEST_F(StageFolderTest, AnOldFileStaysUntilTheNewOneIsWhole) {
  ASSERT_TRUE(folder_.write(file("b", 3), 0, "old", true).ok());
  ASSERT_TRUE(folder_.write(file("b", 6), 0, "new", false).ok());
  EXPECT_EQ(content("x/y/b"), "old");
  ASSERT_TRUE(folder_.write(file("c", 0), 0, "", true).ok());  // the half of b is given up
  EXPECT_THAT(names(), ElementsAre("x", "x/y", "x/y/b", "x/y/c"));
  EXPECT_FALSE(folder_.write(file("b", 6), 3, "er!", true).ok());
}

TEST_F(StageFolderTest, TwoStagingsInOneFolderKeepTheirFilesApart) {
  StageFolder other = *StageFolder::open((root_ / "x/y").string());
  ASSERT_TRUE(folder_.write(file("m", 6), 0, "one", false).ok());
  ASSERT_TRUE(other.write(file("m", 6), 0, "ONE", false).ok());
  ASSERT_TRUE(folder_.check(link("l", "m")).ok());  // beside the half, while it is written
  ASSERT_TRUE(folder_.write(file("m", 6), 3, "two", true).ok());
  EXPECT_EQ(content("x/y/m"), "onetwo");
  ASSERT_TRUE(other.write(file("m", 6), 3, "TWO", true).ok());
  EXPECT_EQ(content("x/y/m"), "ONETWO");
  EXPECT_THAT(names(), ElementsAre("x", "x/y", "x/y/l", "x/y/m"));
}

TEST_F(StageFolderTest, AbandonedHalvesAreSweptByAge) {
  std::ofstream(root_ / "x/y/.muster-stage.half.0123") << "ha";
  ASSERT_TRUE(folder_.write(file("m", 1), 0, "x", true).ok());
  EXPECT_TRUE(fs::exists(root_ / "x/y/.muster-stage.half.0123"));
  StageFolder later = *StageFolder::open((root_ / "x/y").string(), std::chrono::seconds(0));
  ASSERT_TRUE(later.write(file("m", 1), 0, "x", true).ok());
  EXPECT_THAT(names(), ElementsAre("x", "x/y", "x/y/m"));
}

TEST_F(StageFolderTest, AStopEndsTheReadingOfAFile) {
  ASSERT_TRUE(folder_.write(file("b", 3), 0, "abc", true).ok());
  const std::atomic<bool> stop = true;
  EXPECT_EQ(folder_.check(file("b", 3, 7), &stop).status().code(), base::Code::kCancelled);
}

TEST_F(StageFolderTest, PathsStayWithin) {
  for (const char* path : {"", "/etc/x", "../x", "a/../../x", "a//b", "./a", "a/.", "a/"}) {
    EXPECT_FALSE(is_inner_path(path)) << path;
    EXPECT_FALSE(folder_.check(file(path, 1)).ok()) << path;
    EXPECT_FALSE(folder_.write(file(path, 1), 0, "x", true).ok()) << path;
    EXPECT_FALSE(folder_.check(folder(path)).ok()) << path;
  }
  EXPECT_FALSE(is_inner_path(std::string_view("a\0b", 3)));
  EXPECT_FALSE(is_inner_path(std::string(256, 'x')));
  EXPECT_TRUE(is_inner_path(".../..a/b c"));
}

TEST_F(StageFolderTest, LinksAreMadeAndNotFollowed) {
  fs::create_directories(root_ / "outside");
  ASSERT_TRUE(folder_.check(link("out", (root_ / "outside").string())).ok());
  EXPECT_EQ(fs::read_symlink(root_ / "x/y/out"), root_ / "outside");
  const auto refused = folder_.check(file("out/x", 1));
  EXPECT_THAT(refused.status().message(), HasSubstr("out is not a folder on that host"));
  EXPECT_THAT(folder_.check(folder("out")).status().message(), HasSubstr("is not a folder on that host"));
  EXPECT_TRUE(fs::is_empty(root_ / "outside"));
  // A file takes the link's place, not that of what it leads to.
  std::ofstream(root_ / "outside/f") << "mine";
  ASSERT_TRUE(folder_.check(link("f", (root_ / "outside/f").string())).ok());
  ASSERT_EQ(folder_.check(file("f", 4))->verdict, StageVerdict::kContent);
  ASSERT_TRUE(folder_.write(file("f", 4), 0, "this", true).ok());
  EXPECT_EQ(content("outside/f"), "mine");
  EXPECT_EQ(content("x/y/f"), "this");
  ASSERT_TRUE(folder_.check(link("f", "elsewhere")).ok());
  EXPECT_EQ(fs::read_symlink(root_ / "x/y/f"), "elsewhere");
}

TEST_F(StageFolderTest, AFolderIsNotReplacedByAFile) {
  ASSERT_TRUE(folder_.check(folder("d")).ok());
  EXPECT_THAT(folder_.check(file("d", 1)).status().message(), HasSubstr("is a folder on that host, but a file here"));
}

TEST_F(StageFolderTest, MarksAreSeenAndGo) {
  {
    StageFolder other = *StageFolder::open((root_ / "x/y").string());
    ASSERT_TRUE(other.mark("m.1").ok());
    ASSERT_TRUE(folder_.mark("m.0").ok());
    auto seen = *folder_.marks("m.");
    std::ranges::sort(seen);
    EXPECT_THAT(seen, ElementsAre("m.0", "m.1"));
    EXPECT_FALSE(other.mark("../m").ok());
  }
  EXPECT_THAT(*folder_.marks("m."), ElementsAre("m.0"));
  { const StageFolder gone = std::move(folder_); }
  EXPECT_THAT(names(), ElementsAre("x", "x/y"));
}

TEST_F(StageFolderTest, MarksOfKilledAgentsGoLater) {
  std::ofstream(root_ / "x/y/.muster-stage.0123.4") << "";
  std::ofstream(root_ / "x/y/.mine") << "";
  ASSERT_TRUE(folder_.mark("m").ok());
  EXPECT_THAT(names(), ElementsAre("x", "x/y", "x/y/.mine", "x/y/.muster-stage.0123.4", "x/y/m"));
  StageFolder later = *StageFolder::open((root_ / "x/y").string(), std::chrono::seconds(0));
  ASSERT_TRUE(later.mark("m2").ok());
  EXPECT_THAT(names(), ElementsAre("x", "x/y", "x/y/.mine", "x/y/m", "x/y/m2"));
}

// What another user could put beside the staged files would run as the job's user.
class ForeignStageFolderTest : public StageFolderTest {
 protected:
  static constexpr uid_t kStranger = 4242;

  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder to another user";
  }
  std::string make(const std::string& path, unsigned mode, uid_t owner = 0, gid_t group = 0) const {
    const std::string made = (root_ / path).string();
    EXPECT_TRUE(::mkdir(made.c_str(), 0700) == 0 && ::chown(made.c_str(), owner, group) == 0 &&
                ::chmod(made.c_str(), mode) == 0);
    return made;
  }
  static unsigned mode_of(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    return info.st_mode & 07777;
  }
  base::Status stage_into(const std::string& path) const {
    auto opened = StageFolder::open(path);
    if (!opened.ok()) return opened.status();
    EXPECT_TRUE(opened->mark("m").ok()) << "it may be the source";
    const base::Status checked = opened->check(file("f", 1)).status();
    const base::Status written = opened->write(file("f", 1), 0, "x", true);
    EXPECT_EQ(checked.ok(), written.ok());
    EXPECT_EQ(written.ok(), fs::exists(path + "/f"));
    return checked;
  }
};

TEST_F(ForeignStageFolderTest, NothingIsStagedWhereAnotherUserMayWrite) {
  const auto foreign = stage_into(make("bobs", 0777, kStranger));
  EXPECT_EQ(foreign.code(), base::Code::kPermissionDenied);
  EXPECT_THAT(foreign.message(), HasSubstr("bobs belongs to uid 4242"));
  EXPECT_THAT(stage_into(make("open", 0777)).message(), HasSubstr("every user may write into"));
  EXPECT_THAT(stage_into(make("sticky", 01777)).message(), HasSubstr("every user may write into"));
  EXPECT_THAT(stage_into(make("project", 02775, 0, kStranger)).message(), HasSubstr("the members of group 4242"));
}

TEST_F(ForeignStageFolderTest, FilesAreStagedIntoFoldersOfTheUserAndItsPrivateGroup) {
  EXPECT_EQ(stage_into(make("private", 0775)).message(), "");
  EXPECT_EQ(stage_into(make("group", 0755, 0, kStranger)).message(), "");
  make("tmp", 01777);
  EXPECT_EQ(stage_into((root_ / "tmp/job").string()).message(), "");
  EXPECT_EQ(stage_into((root_ / "tmp/job").string()).message(), "") << "a second time";
}

TEST_F(ForeignStageFolderTest, FoldersThatAreMadeAreWritableForTheirOwnerAlone) {
  const mode_t before = ::umask(0);
  StageItem open_folder = folder("d");
  open_folder.mode = 0777;
  EXPECT_TRUE(folder_.check(open_folder).ok());
  EXPECT_TRUE(folder_.write(file("e/f", 1), 0, "x", true).ok());
  const std::string below = make("x/y/old", 02777);
  EXPECT_TRUE(folder_.write(file("old/f", 1), 0, "x", true).ok());
  ::umask(before);
  EXPECT_EQ(mode_of((root_ / "x/y/d").string()), 0755u);
  EXPECT_EQ(mode_of((root_ / "x/y/e").string()), 0755u);
  EXPECT_EQ(mode_of(below), 02755u);
  make("x/y/bobs", 0755, kStranger);
  EXPECT_THAT(folder_.write(file("bobs/f", 1), 0, "x", true).message(), HasSubstr("belongs to uid 4242"));
  EXPECT_THAT(folder_.check(folder("bobs")).status().message(), HasSubstr("belongs to uid 4242"));
}

TEST_F(ForeignStageFolderTest, AFileOfAnotherUserIsReplaced) {
  ASSERT_TRUE(folder_.write(file("b", 3), 0, "abc", true).ok());
  ASSERT_EQ(::chown((root_ / "x/y/b").c_str(), kStranger, 0), 0);
  EXPECT_EQ(folder_.check(file("b", 3))->verdict, StageVerdict::kContent);
}

// A limit of file sizes stands in for a full disk (the real one: tests/e2e/test_42_stage.py): what write(2) says is
// said with the path.
TEST_F(StageFolderTest, AFullDiskIsNamedAndLeavesNothingBehind) {
  const rlimit none{.rlim_cur = 2, .rlim_max = RLIM_INFINITY};
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  const auto written = folder_.write(file("big", 5), 0, "12345", true);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, SIG_DFL);
  ASSERT_FALSE(written.ok());
  EXPECT_THAT(written.message(), HasSubstr("x/y/big"));
  EXPECT_THAT(names(), ElementsAre("x", "x/y"));
}

}  // namespace
}  // namespace muster::agent::stage_folder_test
