#include "cli/top/host_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/top/top_samples.h"

namespace muster::cli::host_rows_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing_support::top_host;

std::string line_of(const v1::LauncherHost& host, const std::string& remark, int width) {
  return text_of(host_table_lines(
                     {&host}, -1, [&](const std::string&) { return remark; }, width)
                     .at(1));
}

TEST(HostRows, ShowBars) {
  const std::string line = line_of(top_host("n1"), "", 120);
  EXPECT_THAT(line, HasSubstr("[|||||  50%]"));
  EXPECT_THAT(line, HasSubstr("[||||||32.0/64.0G]"));
  EXPECT_THAT(line, HasSubstr(" 2/4 "));
}

TEST(HostRows, UnknownLoadIsADash) {
  v1::LauncherHost host = top_host("n1");
  host.clear_load();
  EXPECT_EQ(cpu_cell(host, kNarrowBar).front().text, "-");
  EXPECT_EQ(memory_cell(host, kNarrowBar).front().text, "-");
  EXPECT_EQ(gpu_cell(host, kNarrowBar).front().text, "-");
  host.add_gpus();
  EXPECT_EQ(gpu_cell(host, kNarrowBar).front().text, "1") << "the driver reports no load";
}

TEST(HostRows, MemoryThatIsNearlyFullWarns) {
  v1::LauncherHost host = top_host("n1");
  EXPECT_EQ(memory_cell(host, kNarrowBar).front().style, TextStyle::kGood);
  host.mutable_load()->set_memory_used_mib(58 * 1024);
  EXPECT_EQ(memory_cell(host, kNarrowBar).front().style, TextStyle::kWaiting);
  host.mutable_load()->set_memory_used_mib(63 * 1024);
  EXPECT_EQ(memory_cell(host, kNarrowBar).front().style, TextStyle::kBad);
}

TEST(HostRows, AProblemComesBeforeOtherRemarks) {
  v1::LauncherHost host = top_host("n1");
  EXPECT_THAT(line_of(host, "late in job k7: +12 ms", 160), HasSubstr("late in job k7: +12 ms"));
  host.set_problem("ssh: no route");
  EXPECT_THAT(line_of(host, "late in job k7: +12 ms", 160), HasSubstr("ssh: no route"));
}

TEST(HostRows, NarrowTablesKeepNameSlotsAndLoad) {
  const std::string line = line_of(top_host("n1"), "", 40);
  EXPECT_THAT(line, HasSubstr("n1"));
  EXPECT_THAT(line, HasSubstr("2/4"));
  EXPECT_THAT(line, HasSubstr("50%"));
  EXPECT_THAT(line, Not(HasSubstr("64.0G")));
}

}  // namespace
}  // namespace muster::cli::host_rows_test
