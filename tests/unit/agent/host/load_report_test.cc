#include "agent/host/load_report.h"

#include <gtest/gtest.h>

#include <filesystem>

#include <fmt/format.h>

#include "base/file.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::load_report_test {
namespace {

using namespace std::chrono_literals;

// A host whose memory is as the test says.
class LoadReportTest : public ::testing::Test {
 protected:
  LoadReportTest() { use(100); }

  void use(int mebibytes) const {
    root_.write("proc/new", fmt::format("MemTotal: 16777216 kB\nMemAvailable: {} kB\n", (16'384 - mebibytes) * 1024));
    std::filesystem::rename(root_ / "proc/new", root_ / "proc/meminfo");
  }

  base::Loop loop_;
  testing_support::TempDir root_;
  std::vector<std::int64_t> told_;
};

TEST_F(LoadReportTest, TellsChangesAloneAndAllToANewListener) {
  bool is_again = false;
  LoadReport* report = nullptr;
  LoadReport made(
      loop_, HostLoadReader(root_.path()),
      [&](const v1::AgentMessage& message) {
        told_.push_back(message.host_load().memory_used_mib());
        if (told_.size() == 1) use(110);  // not noticeable: the next that is told is another one
        if (told_.size() == 2 && !std::exchange(is_again, true)) return report->begin();
        if (told_.size() == 3) loop_.stop();
      },
      1ms);
  report = &made;
  made.begin();
  const base::Timer later = loop_.after(50ms, [&] { use(500); });
  const base::Timer watchdog = loop_.after(20s, [&] {
    ADD_FAILURE() << "it was not told";
    loop_.stop();
  });
  loop_.run();
  EXPECT_EQ(told_, (std::vector<std::int64_t>{100, 500, 500}));
}

// The real muster-gpus with an emulation of NVIDIA's library, which fails at first.
class LoadReportOfALibrary : public LoadReportTest {
 protected:
  LoadReportOfALibrary() {
    std::filesystem::copy(MUSTER_SCRIPTED_NVML, root_ / "libnvidia-ml.so.1");
    login_.set("LD_LIBRARY_PATH", root_.path());
    say("fail nvmlInit_v2 18\n");
  }

  void say(const std::string& text) const {
    root_.write("new", "driver 550\n" + text);
    std::filesystem::rename(root_ / "new", root_ / "script");
  }
  LoadReport::Gpus host() { return {.reader = &reader_, .known = {{.index = 0, .uuid = "GPU-a"}}}; }

  base::Environment login_;
  gpus::KilledHelpers killed_{loop_};
  gpus::Reader reader_{loop_, login_, killed_};
};

// It is asked again, and what was wrong is told as long as it is.
TEST_F(LoadReportOfALibrary, TellsThatItFailsAndOfItsRecovery) {
  std::vector<std::string> problems;
  v1::HostLoad last;
  LoadReport report(
      loop_, HostLoadReader(root_.path()),
      [&](const v1::AgentMessage& message) {
        last = message.host_load();
        if (!last.has_gpu_problem()) return;  // before the first answer
        if (problems.empty() || problems.back() != last.gpu_problem()) problems.push_back(last.gpu_problem());
        if (problems.size() == 1) say("gpu 0000:1b:00.0 GPU-a 100 0 5 H100\n");
        if (problems.size() == 2) loop_.stop();
      },
      host(), 1ms);
  report.begin();
  const base::Timer watchdog = loop_.after(20s, [&] {
    ADD_FAILURE() << "it was not told";
    loop_.stop();
  });
  loop_.run();
  EXPECT_EQ(
      problems,
      (std::vector<std::string>{
          "NVIDIA's management library does not start: nvmlInit_v2 failed: Driver/library version mismatch (18)", ""}));
  ASSERT_EQ(last.gpus_size(), 1);
  EXPECT_EQ(last.gpus(0).busy_percent(), 5);
}

// Each question starts a process.
TEST_F(LoadReportOfALibrary, IsNotAskedEachTimeWhileItFails) {
  root_.write("calls", "");
  base::Timer enough;
  LoadReport report(
      loop_, HostLoadReader(root_.path()),
      [&](const v1::AgentMessage& message) {
        if (!message.host_load().has_gpu_problem() || enough.armed()) return;
        enough = loop_.after(500ms, [&] { loop_.stop(); });  // five periods
      },
      host(), 100ms);
  report.begin();
  const base::Timer watchdog = loop_.after(20s, [&] {
    ADD_FAILURE() << "it was not told";
    loop_.stop();
  });
  loop_.run();
  const auto calls = base::read_file(root_ / "calls", 1 << 16);
  ASSERT_TRUE(calls.ok()) << calls.status();
  EXPECT_EQ(*calls, "nvmlInit_v2\n");
}

TEST_F(LoadReportTest, SilentWhenNobodyListens) {
  LoadReport report(
      loop_, HostLoadReader(root_.path()), [&](const v1::AgentMessage&) { told_.push_back(0); }, 1ms);
  report.begin();
  report.end();
  const base::Timer enough = loop_.after(20ms, [&] { loop_.stop(); });
  loop_.run();
  EXPECT_TRUE(told_.empty());
}

}  // namespace
}  // namespace muster::agent::load_report_test
