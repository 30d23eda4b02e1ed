#include "cli/host_table.h"

#include <gtest/gtest.h>

namespace muster::cli {
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

TEST(HostTable, WhatDriversTellOfGpus) {
  v1::LauncherHost host;
  host.set_name("n1");
  host.set_slots(4);
  for (int i = 0; i < 3; ++i) {
    v1::Gpu& gpu = *host.add_gpus();
    gpu.set_model("NVIDIA H100");
    gpu.set_memory_mib(81'559);
    v1::GpuLoad& load = *host.mutable_load()->add_gpus();
    load.set_memory_used_mib(100);
    load.set_processes(i);
  }
  host.mutable_gpus(2)->set_divided(true);
  host.mutable_gpus(2)->add_parts();
  host.mutable_gpus(2)->add_parts();
  host.set_gpu_problem("GPU 3 cannot be used");
  const std::string table = format_hosts({host});
  EXPECT_EQ(table.substr(table.find("  gpus: ")),
            "  gpus: 3 x NVIDIA H100 of 79 GiB; 1 divided (MIG), 2 parts; 300 MiB used, 3 processes\n"
            "  gpus: GPU 3 cannot be used\n");
}

}  // namespace
}  // namespace muster::cli
