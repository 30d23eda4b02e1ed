#include "cli/view/host_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/view/local_time.h"

namespace muster::cli::host_table_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(HostTable, HostsWithWhatIsKnownOfThem) {
  v1::LauncherHost up;
  up.set_name("n1");
  up.set_slots(64);
  up.set_used_slots(16);
  up.set_jobs(2);
  up.set_agent(v1::AGENT_STATE_UP);
  up.set_cores(64);
  up.set_memory_mib(262'144);
  up.add_gpus();
  up.set_containment("cgroup");
  v1::LauncherHost drained;
  drained.set_name("node-2");
  drained.set_slots(8);
  drained.set_drained(true);
  drained.set_reason("new\x1bmemory");
  drained.set_agent(v1::AGENT_STATE_NONE);
  v1::LauncherHost failed;
  failed.set_name("n3");
  failed.set_slots(8);
  failed.set_memory_mib(900);
  failed.set_agent(v1::AGENT_STATE_FAILED);
  failed.set_problem("n3: connection refused");
  EXPECT_EQ(format_hosts({}), "");
  EXPECT_EQ(format_hosts({up, drained, failed}),
            "host        slots   jobs  agent             cores     memory   gpus  containment\n"
            "n1          16/64      2  up                   64    256 GiB      1  cgroup\n"
            "node-2        0/8      0  none, drained         -          -      -  -\n"
            "  drained: new\\x1bmemory\n"
            "n3            0/8      0  failed                -    900 MiB      -  -\n"
            "  n3: connection refused\n");
}

TEST(HostTable, NamesTheJobsInWhichAHostFailed) {
  v1::LauncherHost host;
  host.set_name("n1");
  host.set_slots(2);
  v1::LeftOut& later = *host.add_left_out();
  later.set_job("abcdefgh");
  later.set_reason("its\x1b agent ended");
  later.mutable_usable_from()->set_seconds(1'781'975'153);
  host.add_left_out()->set_job("hgfedcba");
  const std::string back = format_local_time(std::chrono::system_clock::from_time_t(1'781'975'153));
  EXPECT_EQ(back.size(), std::string("2026-06-20 17:05:53 +0000").size()) << back;
  const std::string table = format_hosts({host});
  EXPECT_NE(table.find("  failed in job abcdefgh, back at " + back + ": its\\x1b agent ended\n"), std::string::npos)
      << table;
  EXPECT_NE(table.find("  failed in job hgfedcba, not used again by it\n"), std::string::npos) << table;
}

TEST(HostTable, NamesAtMostFiveJobsInWhichAHostFailed) {
  v1::LauncherHost host;
  for (const char* const job : {"a", "b", "c", "d", "e"}) host.add_left_out()->set_job(job);
  EXPECT_THAT(format_hosts({host}), Not(HasSubstr("more jobs")));
  host.add_left_out()->set_job("f");
  host.add_left_out()->set_job("g");
  const std::string table = format_hosts({host});
  EXPECT_THAT(table, HasSubstr("  failed in job e, not used again by it\n  failed in 2 more jobs; --json names all\n"));
  EXPECT_THAT(table, Not(HasSubstr("job f,")));
}

}  // namespace
}  // namespace muster::cli::host_table_test
