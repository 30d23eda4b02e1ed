#include "cli/view/host_table.h"

#include <gtest/gtest.h>

namespace muster::cli::host_table_test {
namespace {

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

}  // namespace
}  // namespace muster::cli::host_table_test
