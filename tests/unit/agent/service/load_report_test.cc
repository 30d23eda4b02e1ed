#include "agent/service/load_report.h"

#include <gtest/gtest.h>

#include <filesystem>

#include <fmt/format.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::agent {
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
      loop_, HostLoadReader({}, root_.path()),
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

TEST_F(LoadReportTest, SilentWhenNobodyListens) {
  LoadReport report(
      loop_, HostLoadReader({}, root_.path()), [&](const v1::AgentMessage&) { told_.push_back(0); }, 1ms);
  report.begin();
  report.end();
  const base::Timer enough = loop_.after(20ms, [&] { loop_.stop(); });
  loop_.run();
  EXPECT_TRUE(told_.empty());
}

}  // namespace
}  // namespace muster::agent
