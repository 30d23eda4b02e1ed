#include "agent/process/oom_watch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <memory>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::agent::oom_watch_test {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

constexpr microseconds kNow = seconds(1000);

TEST(OomLineTest, ReadsTheKernelsWords) {
  const auto line = parse_oom_line(
      "3,1234,5678901,-;Out of memory: Killed process 4711 (python3) total-vm:900kB, anon-rss:70kB, file-rss:20kB, "
      "shmem-rss:10kB, UID:1000 pgtables:1kB oom_score_adj:0\n SUBSYSTEM=x\n");
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->at, microseconds(5678901));
  EXPECT_EQ(line->pid, 4711);
  EXPECT_EQ(line->command, "python3");
  EXPECT_EQ(line->resident_kib, 100U);
  EXPECT_TRUE(line->text.starts_with("Out of memory: Killed process 4711 (python3) total-vm:900kB")) << line->text;
  EXPECT_TRUE(line->text.ends_with("oom_score_adj:0")) << line->text;
}

TEST(OomLineTest, ReadsNamesWithBrackets) {
  const auto line = parse_oom_line("3,1,2,-;Memory cgroup out of memory: Killed process 12 (a) b) total-vm:1kB");
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->command, "a) b");
  const auto older = parse_oom_line("3,1,2,-;Out of memory: Killed process 12 (a), UID 0, total-vm:1kB, anon-rss:1kB");
  ASSERT_TRUE(older.has_value());
  EXPECT_EQ(older->command, "a");
}

TEST(OomLineTest, OtherLinesNameNobody) {
  for (const char* line : {"", "6,1,2,-;eth0: link up", "3,1,2,-;Killed process 12 (x)",
                           "Out of memory: Killed process 1", "4,1,2,-;python3 invoked oom-killer: gfp_mask=0x1",
                           "3,1,2,-;Out of memory: Killed process x", "3,1,2,-;Out of memory: Killed process -4 (x)"}) {
    EXPECT_FALSE(parse_oom_line(line).has_value()) << line;
  }
}

TEST(OomWatchTest, NobodyWasKilled) {
  OomWatch watch(nullptr);
  EXPECT_NE(watch.judge({.pid = ::getpid()}, kNow).verdict, OomVerdict::kYes);
  EXPECT_EQ(watch.take_others(), 0U);
}

class OomSourcesTest : public ::testing::Test {
 protected:
  OomSourcesTest() {
    count(0, 7);
    sources_ = {.memory_events = dir_ / "memory.oom_control", .vmstat = dir_ / "vmstat", .log = dir_ / "none"};
  }
  void count(int under_our_limit, int on_the_machine) {
    std::ofstream(dir_ / "memory.oom_control")
        << "oom_kill_disable 0\nunder_oom 0\noom_kill " << under_our_limit << "\n";
    std::ofstream(dir_ / "vmstat") << "nr_free_pages 1\noom_kill " << on_the_machine << "\nswpin_zero 0\n";
  }

  static OomVerdict verdict(OomWatch& watch, pid_t pid) { return watch.judge({.pid = pid}, kNow).verdict; }

  testing_support::TempDir dir_;
  OomSources sources_;
};

// In a PID namespace of the host's own the numbers in the kernel's log are of no use.
TEST_F(OomSourcesTest, CountsKillsUnderTheLimitOfThisProcess) {
  OomWatch watch(nullptr, sources_);
  EXPECT_EQ(verdict(watch, 11), OomVerdict::kNo);
  count(2, 9);
  EXPECT_EQ(verdict(watch, 11), OomVerdict::kYes);
  EXPECT_EQ(watch.take_others(), 1U) << "a child of a rank";
  EXPECT_EQ(watch.take_others(), 0U);
  EXPECT_EQ(verdict(watch, 12), OomVerdict::kNo);
}

TEST_F(OomSourcesTest, SuspectsWhenOnlyTheMachineCountsKills) {
  sources_.memory_events = "";
  OomWatch watch(nullptr, sources_);
  EXPECT_EQ(verdict(watch, 11), OomVerdict::kNo);
  count(0, 8);
  EXPECT_EQ(verdict(watch, 11), OomVerdict::kPerhaps);
  EXPECT_EQ(verdict(watch, 12), OomVerdict::kNo);
}

// A pipe gives the records one by one, as /dev/kmsg does.
class OomLogTest : public OomSourcesTest {
 protected:
  OomLogTest() {
    sources_.memory_events = "";
    sources_.log = dir_ / "kmsg";
    EXPECT_EQ(::mkfifo(sources_.log.c_str(), 0600), 0);
    watch_ = std::make_unique<OomWatch>(nullptr, sources_);
    log_.reset(::open(sources_.log.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    EXPECT_TRUE(log_.valid());
  }
  void kill(pid_t pid, const char* command, long kib, std::chrono::seconds at = seconds(999)) {
    const std::string record =
        fmt::format("3,1,{},-;Out of memory: Killed process {} ({}) total-vm:9kB, anon-rss:{}kB, file-rss:0kB",
                    microseconds(at).count(), pid, command, kib);
    EXPECT_EQ(::write(log_.get(), record.data(), record.size()), static_cast<ssize_t>(record.size()));
  }

  std::unique_ptr<OomWatch> watch_;
  base::UniqueFd log_;
};

TEST_F(OomLogTest, FindsThePid) {
  kill(11, "python3", 70'000);
  EXPECT_EQ(watch_->judge({.pid = 12, .command = "python3", .peak_kib = 10}, seconds(5000)).verdict, OomVerdict::kNo);
  EXPECT_EQ(watch_->judge({.pid = 11, .command = "sh", .peak_kib = 70'000}, kNow).verdict, OomVerdict::kNo)
      << "a process of another namespace";
  const OomJudgement judgement = watch_->judge({.pid = 11, .command = "python3", .peak_kib = 10}, seconds(5000));
  EXPECT_EQ(judgement.verdict, OomVerdict::kYes);
  EXPECT_TRUE(judgement.kernel_line.starts_with("Out of memory: Killed process 11 (python3)")) << judgement.kernel_line;
  EXPECT_EQ(watch_->judge({.pid = 11, .command = "python3", .peak_kib = 10}, kNow).verdict, OomVerdict::kNo) << "again";
}

TEST_F(OomLogTest, MatchesNameTimeAndMemoryInAnotherNamespace) {
  kill(90011, "python3", 70'000);
  EXPECT_EQ(watch_->judge({.pid = 11, .command = "python3", .peak_kib = 71'000}, kNow).verdict, OomVerdict::kYes);
}

TEST_F(OomLogTest, SuspectsIfOnlyNameAndTimeFit) {
  kill(90011, "python3", 70'000);
  const OomJudgement judgement = watch_->judge({.pid = 11, .command = "python3", .peak_kib = 7'000'000}, kNow);
  EXPECT_EQ(judgement.verdict, OomVerdict::kPerhaps);
  EXPECT_NE(judgement.kernel_line, "");
}

TEST_F(OomLogTest, IgnoresOldLinesAndOtherNames) {
  kill(90011, "python3", 70'000, seconds(10));
  EXPECT_EQ(watch_->judge({.pid = 11, .command = "python3", .peak_kib = 70'000}, kNow).verdict, OomVerdict::kNo);
  EXPECT_EQ(watch_->judge({.pid = 11, .command = "java", .peak_kib = 70'000}, seconds(11)).verdict, OomVerdict::kNo);
}

TEST(FindMemoryEventsTest, VersionsOneAndTwo) {
  constexpr const char* kV1 = "30 24 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
  EXPECT_EQ(find_memory_events(kV1, "9:memory:/user/a\n0::/\n"), "/sys/fs/cgroup/memory/user/a/memory.oom_control");
  EXPECT_EQ(find_memory_events(kV1, "9:memory:/\n"), "/sys/fs/cgroup/memory/memory.oom_control");
  constexpr const char* kV2 = "30 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
  EXPECT_EQ(find_memory_events(kV2, "0::/user/a\n"), "/sys/fs/cgroup/user/a/memory.events");
  EXPECT_EQ(find_memory_events("", "9:memory:/\n"), "");
}

}  // namespace
}  // namespace muster::agent::oom_watch_test
