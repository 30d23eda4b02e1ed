#include "cli/view/short_rows.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "cli/view/host_table.h"
#include "cli/view/job_table.h"

namespace muster::cli::short_rows_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ShortRows, KeepsTheOrderIfAllFit) {
  const auto urgency = [](std::size_t row) { return row == 2 ? 0 : 1; };
  EXPECT_THAT(choose_rows(3, 3, urgency), ElementsAre(0, 1, 2));
  EXPECT_THAT(choose_rows(3, kAllRows, urgency), ElementsAre(0, 1, 2));
  EXPECT_THAT(choose_rows(0, 5, urgency), ElementsAre());
}

TEST(ShortRows, TheMostUrgentComeFirst) {
  const auto urgency = [](std::size_t row) { return row >= 7 ? 0 : 1; };
  EXPECT_THAT(choose_rows(10, 5, urgency), ElementsAre(7, 8, 9, 0, 1));
}

TEST(ShortRows, CountsTheRestByState) {
  const auto state = [](std::size_t row) { return std::string(row % 4 == 0 ? "waiting" : "up"); };
  EXPECT_EQ(describe_rest("hosts", 4, {0, 1, 2, 3}, state), "");
  EXPECT_EQ(describe_rest("hosts", 10'000, {0, 1}, state),
            "and 9,998 more hosts: 7,499 up, 2,499 waiting; --all lists them\n");
  const auto many = [](std::size_t row) { return fmt::format("state {}", row % 8); };
  EXPECT_THAT(describe_rest("ranks", 800, {0}, many), HasSubstr(", 299 in other states; --all lists them\n"));
}

// A pipe gets all rows; the tests' stdout is none or a file.
TEST(ShortRows, OnlyATerminalHasAScreen) {
  EXPECT_EQ(rows_on_screen(true), kAllRows);
}

TEST(ShortRows, HostsThatFailedComeFirstInAShortTable) {
  std::vector<v1::LauncherHost> hosts(10'000);
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    hosts[i].set_name(fmt::format("n{:05}", i + 1));
    hosts[i].set_slots(8);
    hosts[i].set_agent(v1::AGENT_STATE_UP);
  }
  hosts[9'000].set_agent(v1::AGENT_STATE_SUSPECT);
  hosts[9'500].set_agent(v1::AGENT_STATE_FAILED);
  hosts[9'500].set_problem("n09501: connection refused");
  hosts[9'600].set_drained(true);
  const std::string table = format_hosts(hosts, 5);
  const auto lines = std::count(table.begin(), table.end(), '\n');
  EXPECT_EQ(lines, 1 + 5 + 1 + 1) << table;
  EXPECT_LT(table.find("n09501"), table.find("n09001"));
  EXPECT_LT(table.find("n09001"), table.find("n09601"));
  EXPECT_LT(table.find("n09601"), table.find("n00001"));
  EXPECT_THAT(table, HasSubstr("\nand 9,995 more hosts: 9,995 up; --all lists them\n"));
  EXPECT_THAT(format_hosts(hosts), Not(HasSubstr(" more hosts")));
}

TEST(ShortRows, LateHostsAndFailedRanksComeFirstInAShortStatus) {
  v1::Job job;
  job.set_id("abcdefgh");
  job.set_state(v1::JOB_STATE_STARTING);
  job.set_size(80'000);
  for (int i = 0; i < 10'000; ++i) {
    v1::HostStatus& host = *job.add_hosts();
    host.set_name(fmt::format("n{:05}", i + 1));
    host.set_ranks(8);
    host.set_up(i != 7'777);
    host.set_link("dial");
  }
  for (int i = 0; i < 80'000; ++i) {
    v1::RankStatus& rank = *job.add_ranks();
    rank.set_rank(i);
    rank.set_host(fmt::format("n{:05}", i / 8 + 1));
    rank.set_pid(100 + i);
    rank.set_state(v1::RANK_STATE_RUNNING);
  }
  v1::RankStatus& failed = *job.mutable_ranks(70'000);
  failed.set_state(v1::RANK_STATE_ENDED);
  failed.mutable_end()->set_rank(70'000);
  failed.mutable_end()->set_kind(v1::RANK_END_KIND_EXITED);
  failed.mutable_end()->set_exit_code(3);
  const std::string text = format_status(job, base::WallTime(), 12);
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 60) << text;
  EXPECT_THAT(text, HasSubstr("containment\nn07778      8  waiting"));
  EXPECT_THAT(text, HasSubstr("state\n 70000  n08751     70100  exit code 3\n"));
  EXPECT_THAT(text, HasSubstr("\nand 9,988 more hosts: 9,988 up; --all lists them\n"));
  EXPECT_THAT(text, HasSubstr("\nand 79,988 more ranks: 79,988 running; --all lists them\n"));
  for (const std::string_view line : base::split(text, '\n')) EXPECT_LE(line.size(), 400u) << line;
}

}  // namespace
}  // namespace muster::cli::short_rows_test
