#include "agent/commands/agents_report.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::agent::agents_report_test {
namespace {

using std::chrono::hours;

TEST(AgentsReport, Options) {
  EXPECT_EQ(parse_agents({})->prune, std::nullopt);
  EXPECT_EQ(parse_agents({"--prune", "60"})->prune, std::chrono::seconds(60));
  using Words = std::vector<std::string>;
  for (const Words& words : {Words{"--prune"}, Words{"--prune", "-1"}, Words{"--prune", "x"}, Words{"--all"}}) {
    EXPECT_EQ(parse_agents(words).status().code(), base::Code::kInvalidArgument) << words.front();
  }
}

TEST(AgentsReport, PrunesWhatWasNotUsedForLongEnough) {
  const testing_support::TempDir folder;
  const base::WallTime now = base::SystemClock().wall();
  for (const auto& [name, idle] :
       {std::pair("agent-aaaaaaaaaaaaaaaa-x86_64", hours(1)), std::pair("agent-bbbbbbbbbbbbbbbb-x86_64", hours(25)),
        std::pair("agent-cccccccccccccccc-x86_64", hours(900))}) {
    const std::string path = folder.write(name,
                                          "\x7f"
                                          "ELF");
    const timespec at{.tv_sec = std::chrono::system_clock::to_time_t(now - idle), .tv_nsec = 0};
    const timespec times[2] = {at, at};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }
  const auto names = [](const v1::AgentsReport& report) {
    std::string removed;
    for (const v1::StoredAgent& agent : report.agents()) {
      if (agent.is_removed()) removed += agent.path().substr(agent.path().rfind('/') + 1) + " ";
    }
    return removed;
  };
  EXPECT_EQ(names(make_agents_report(folder.path(), {}, now)), "");
  EXPECT_EQ(names(make_agents_report(folder.path(), {.prune = kForgottenAfter}, now)),
            "agent-cccccccccccccccc-x86_64 ");
  // An agent that was used an hour ago stays, even with --prune 0.
  EXPECT_EQ(names(make_agents_report(folder.path(), {.prune = hours(0)}, now)), "agent-bbbbbbbbbbbbbbbb-x86_64 ");
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/agent-aaaaaaaaaaaaaaaa-x86_64"));
  const v1::AgentsReport none = make_agents_report(folder.path() + "/none", {.prune = hours(0)}, now);
  EXPECT_EQ(none.problem(), "") << "a host without such a folder has no agents";
  EXPECT_EQ(none.agents_size(), 0);
}

}  // namespace
}  // namespace muster::agent::agents_report_test
