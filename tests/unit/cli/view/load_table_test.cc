#include "cli/view/load_table.h"

#include <gtest/gtest.h>

namespace muster::cli::load_table_test {
namespace {

v1::LauncherHost host(const std::string& name, v1::AgentState agent) {
  v1::LauncherHost made;
  made.set_name(name);
  made.set_slots(8);
  made.set_agent(agent);
  return made;
}

TEST(LoadTable, WhatIsKnownOfHosts) {
  v1::LauncherHost busy = host("n1", v1::AGENT_STATE_UP);
  busy.set_used_slots(8);
  busy.set_ranks(16);
  busy.set_memory_mib(1'048'576);
  busy.add_gpus();
  busy.add_gpus();
  busy.mutable_load()->set_cpu_percent(100);
  busy.mutable_load()->set_memory_used_mib(524'288);
  busy.mutable_load()->add_gpus()->set_busy_percent(98);
  busy.mutable_load()->add_gpus()->set_busy_percent(31);
  busy.set_output_bytes_per_second(0);
  v1::LauncherHost silent = host("n2", v1::AGENT_STATE_UP);  // up, and has told nothing yet
  silent.add_gpus();
  v1::LauncherHost gone = host("node-\x1b", v1::AGENT_STATE_FAILED);
  gone.set_problem("node-3: connection refused");
  EXPECT_EQ(format_loads({}), "");
  EXPECT_EQ(format_loads({busy, silent, gone}),
            "host           slots   ranks    cpu            memory      gpus     output  agent\n"
            "n1               8/8      16   100%  512.0/1024.0 GiB     2 64%      0 B/s  up\n"
            "n2               0/8       0      -                 -         1          -  up\n"
            "node-\\x1b        0/8       0      -                 -         -          -  failed\n"
            "  node-3: connection refused\n");
}

TEST(LoadTable, Rates) {
  EXPECT_EQ(format_rate(-5), "0 B/s");
  EXPECT_EQ(format_rate(999), "999 B/s");
  EXPECT_EQ(format_rate(1'000), "1.0 kB/s");
  EXPECT_EQ(format_rate(12'400), "12 kB/s");
  EXPECT_EQ(format_rate(999'600), "1.0 MB/s");
  EXPECT_EQ(format_rate(5'000'000'000'000), "5000 GB/s");
}

}  // namespace
}  // namespace muster::cli::load_table_test
