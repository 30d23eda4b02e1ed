#include "cli/doctor/agents_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cli::agents_view_test {
namespace {

using ::testing::HasSubstr;

v1::AgentsReport report_of(const std::string& host) {
  v1::AgentsReport report;
  report.set_host(host);
  return report;
}

TEST(AgentsView, TheTableShowsWhatWasRemovedAndWhatIsLeft) {
  v1::AgentsReport one = report_of("n1");
  v1::StoredAgent* agent = one.add_agents();
  agent->set_path("/home/a/.cache/muster/agent-1-x86_64");
  agent->set_size_bytes(16'000'000);
  agent->set_idle_s(50 * 3600);
  agent->set_is_removed(true);
  agent = one.add_agents();
  agent->set_path("/home/a/.cache/muster/agent-2-x86_64");
  agent->set_size_bytes(16'000'000);
  agent->set_is_own(true);
  EXPECT_EQ(agents_exit_code({one}), 0);
  v1::AgentsReport down = report_of("n2");
  down.set_unreachable("connection\x1b refused");
  EXPECT_EQ(format_agents({one, down}),
            "HOST  SIZE     USED     STATE       PROGRAM\n"
            "n1    16.0 MB  2 d ago  removed     /home/a/.cache/muster/agent-1-x86_64\n"
            "n1    16.0 MB  now      this build  /home/a/.cache/muster/agent-2-x86_64\n"
            "n2: unknown: connection\\x1b refused\n"
            "2 hosts: 2 agents with 32.0 MB; 1 removed (16.0 MB)\n");
  EXPECT_EQ(agents_exit_code({one, down}), 1);
  EXPECT_EQ(agents_exit_code({down}), 125);
  one.mutable_agents(0)->set_is_removed(false);
  one.mutable_agents(0)->set_problem("cannot remove it");
  EXPECT_EQ(agents_exit_code({one}), 1);
  EXPECT_THAT(format_agents({one}), HasSubstr("LEFT"));
  EXPECT_THAT(format_agents({one}), HasSubstr("n1: cannot remove it\n"));
}

}  // namespace
}  // namespace muster::cli::agents_view_test
