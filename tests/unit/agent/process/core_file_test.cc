#include "agent/process/core_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::agent::core_file_test {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

class CoreFileTest : public ::testing::Test {
 protected:
  CoreQuery query(bool was_dumped, std::uint64_t limit = kUnlimited) {
    return {.signal = SIGSEGV,
            .was_dumped = was_dumped,
            .pid = 4711,
            .pid_inside = 42,
            .workdir = dir_.path(),
            .limit = limit};
  }
  void write(const std::string& name) { std::ofstream(dir_ / name) << "core"; }

  testing_support::TempDir dir_;
};

TEST(CoreSignals, AreThoseOfCrashes) {
  EXPECT_TRUE(may_leave_core(SIGSEGV) && may_leave_core(SIGABRT) && may_leave_core(SIGILL));
  EXPECT_FALSE(may_leave_core(SIGKILL) || may_leave_core(SIGTERM) || may_leave_core(SIGPIPE));
}

TEST_F(CoreFileTest, ExpandsThePattern) {
  CoreQuery asked = query(true);
  asked.workdir = "/w[1]";
  EXPECT_EQ(core_path_pattern(asked, {"core", false}), "/w\\[1\\]/core");
  EXPECT_EQ(core_path_pattern(asked, {"core", true}), "/w\\[1\\]/core.42");
  EXPECT_EQ(core_path_pattern(asked, {"/c/%e.%p.%s.%%.%t", true}), "/c/*.42.11.%.*");
  EXPECT_EQ(core_path_pattern(asked, {"/c/%", false}), "/c/%");
}

TEST_F(CoreFileTest, FindsAFileOfThatName) {
  EXPECT_THAT(find_core(query(true), {"core", true}).note, HasSubstr("it was not found (kernel.core_pattern is core)"));
  write("core.42");
  EXPECT_EQ(find_core(query(true), {"core", true}).file, dir_ / "core.42");
  EXPECT_EQ(find_core(query(true), {"core.%p", false}).file, dir_ / "core.42");
}

TEST_F(CoreFileTest, FindsTheNewestMatch) {
  write("core.a.42.1");
  write("core.b.42.2");
  write("core.c.43.3");
  struct timespec times[2] = {{::time(nullptr) - 20, 0}, {::time(nullptr) - 20, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (dir_ / "core.a.42.1").c_str(), times, 0), 0);
  EXPECT_EQ(find_core(query(true), {"core.%e.%p.%t", false}).file, dir_ / "core.b.42.2");
  EXPECT_EQ(find_core(query(true), {dir_ / "core.%e.%p.%t", false}).file, dir_ / "core.b.42.2");
}

TEST_F(CoreFileTest, IgnoresFilesOfEarlierCrashesAndLinks) {
  write("core");
  struct timespec times[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (dir_ / "core").c_str(), times, 0), 0);
  EXPECT_EQ(find_core(query(true), {"core", false}).file, "");
  ASSERT_EQ(::symlink("/etc/passwd", (dir_ / "core.42").c_str()), 0);
  EXPECT_EQ(find_core(query(true), {"core", true}).file, "");
}

TEST_F(CoreFileTest, ExplainsWhyThereIsNone) {
  EXPECT_EQ(find_core(query(false, 0), {"core", false}).note,
            "no core was written, because the limit of its size is 0: hvdrun --ulimit core=unlimited");
  EXPECT_EQ(find_core(query(false), {"core", false}).note, "no core was written (kernel.core_pattern is core)");
  EXPECT_EQ(find_core(query(false), {"/no/such/folder/core", false}).note,
            "no core was written: this user may not write to /no/such/folder/");
  EXPECT_EQ(find_core(query(false), {"", false}).note, "no core was written (kernel.core_pattern is empty)");
}

TEST_F(CoreFileTest, NamesTheProgramThatHasIt) {
  EXPECT_EQ(find_core(query(true), {"|/usr/lib/systemd/systemd-coredump %P %u", false}).note,
            "systemd-coredump has its core: coredumpctl info 4711");
  EXPECT_EQ(find_core(query(false, 0), {"|/usr/share/apport/apport -p%p", false}).note,
            "the kernel gives cores to /usr/share/apport/apport");
}

TEST(CoreSettingsOfThisHost, CanBeRead) {
  const CoreSettings settings = read_core_settings();
  std::string line;
  std::ifstream file("/proc/sys/kernel/core_pattern");
  std::getline(file, line);
  EXPECT_EQ(settings.pattern, line);
}

}  // namespace
}  // namespace muster::agent::core_file_test
