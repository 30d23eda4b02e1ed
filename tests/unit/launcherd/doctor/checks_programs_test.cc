#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcherd/doctor/checks.h"

namespace muster::launcherd::checks_programs_test {
namespace {

using model::Check;
using model::CheckState;
using ::testing::HasSubstr;

TEST(CheckCores, CountsCoresThreadsAndSockets) {
  v1::Hello hello;
  EXPECT_EQ(check_cores(hello).state, CheckState::kFail);
  for (int i = 0; i < 4; ++i) {
    v1::Core& core = *hello.add_cores();
    core.set_socket(i / 2);
    core.add_cpus(i);
    core.add_cpus(i + 4);
  }
  hello.set_memory_mib(64 * 1024);
  EXPECT_EQ(check_cores(hello),
            (Check{"cores", CheckState::kOk, "4 cores of 8 threads on 2 sockets, 64 GiB memory", ""}));
}

TEST(CheckGpus, ModelsAndDriver) {
  v1::HostFacts facts;
  EXPECT_EQ(check_gpus(facts), (Check{"gpus", CheckState::kOk, "none", ""}));
  facts.set_nvidia_driver("535.104.05");
  EXPECT_EQ(check_gpus(facts).state, CheckState::kWarn);
  EXPECT_THAT(check_gpus(facts).advice, HasSubstr("nvidia-smi"));
  for (int i = 0; i < 2; ++i) facts.mutable_hello()->add_gpus()->set_model("NVIDIA H200");
  facts.mutable_hello()->add_gpus()->set_vendor(v1::GPU_VENDOR_AMD);
  EXPECT_EQ(check_gpus(facts).seen, "1 x AMD GPU, 2 x NVIDIA H200, driver 535.104.05");
  EXPECT_EQ(check_gpus(facts).state, CheckState::kOk);
  v1::HostFacts intel;
  for (int i = 0; i < 6; ++i) intel.mutable_hello()->add_gpus()->set_vendor(v1::GPU_VENDOR_INTEL);
  EXPECT_EQ(check_gpus(intel).seen, "6 x Intel GPU");
}

TEST(CheckGpus, ALibraryThatFails) {
  v1::HostFacts facts;
  facts.set_nvidia_driver("550.54.15");
  facts.mutable_hello()->add_gpus()->set_model("NVIDIA H200");
  facts.mutable_hello()->set_gpu_problem("it does not start: version mismatch (18)");
  EXPECT_EQ(check_gpus(facts), (Check{"gpus", CheckState::kWarn, "1 seen in the driver's files, driver 550.54.15",
                                      "it does not start: version mismatch (18)"}));
}

TEST(CheckGpus, OneThatIsLost) {
  v1::HostFacts facts;
  facts.set_nvidia_driver("550.54.15");
  facts.mutable_hello()->set_gpu_driver("550.54.15");
  facts.mutable_hello()->set_gpu_problem("GPU 1 of nvidia-smi cannot be used");
  EXPECT_EQ(check_gpus(facts).seen, "none, driver 550.54.15");
  facts.mutable_hello()->add_gpus()->set_model("NVIDIA H200");
  EXPECT_EQ(check_gpus(facts), (Check{"gpus", CheckState::kWarn, "1 x NVIDIA H200, driver 550.54.15",
                                      "GPU 1 of nvidia-smi cannot be used"}));
}

TEST(CheckGpuMemory, NamesWhoHoldsIt) {
  v1::HostFacts facts;
  EXPECT_EQ(check_gpu_memory(facts), (Check{"gpu memory", CheckState::kOk, "no process holds any", ""}));
  v1::GpuUser& lives = *facts.add_gpu_users();
  lives.set_pid(12);
  lives.set_memory_mib(1200);
  lives.set_uid(1001);
  lives.set_command("python3");
  EXPECT_EQ(check_gpu_memory(facts).seen, "GPU 0: 1200 MiB of pid 12 (python3, uid 1001)");
  EXPECT_THAT(check_gpu_memory(facts).advice, HasSubstr("shares the GPUs"));
  v1::GpuUser& ended = *facts.add_gpu_users();
  ended.set_vendor(v1::GPU_VENDOR_NVIDIA);
  ended.set_gpu(3);
  ended.set_part("MIG-a");
  ended.set_pid(77);
  ended.set_has_ended(true);
  EXPECT_EQ(check_gpu_memory(facts).state, CheckState::kWarn);
  EXPECT_THAT(check_gpu_memory(facts).seen, HasSubstr("; MIG-a of GPU 3: memory of pid 77 (not visible to the agent)"));
  EXPECT_THAT(check_gpu_memory(facts).advice, HasSubstr("(nvidia-smi, rocm-smi) on the host"));
  for (int i = 0; i < 10; ++i) facts.add_gpu_users()->set_pid(100 + i);
  EXPECT_THAT(check_gpu_memory(facts).seen, HasSubstr("; 4 more"));
}

TEST(CheckGpuMemory, OfANumberOfTheHostsNobodyKnowsMore) {
  v1::HostFacts facts;
  v1::GpuUser& user = *facts.add_gpu_users();
  user.set_vendor(v1::GPU_VENDOR_AMD);
  user.set_pid(4711);
  user.set_is_foreign(true);
  EXPECT_EQ(check_gpu_memory(facts),
            (Check{"gpu memory", CheckState::kWarn, "AMD GPU 0: memory of pid 4711 (the host's number)",
                   "the agent runs in a container and cannot identify these processes: check on the host itself"}));
}

void add_untold(v1::HostFacts& facts, v1::GpuVendor vendor, int index, bool own_only) {
  v1::UntoldGpu& gpu = *facts.add_untold_gpus();
  gpu.set_vendor(vendor);
  gpu.set_index(index);
  gpu.set_own_only(own_only);
}

// The kernel shows the users of Intel's GPUs only to themselves and to root.
TEST(CheckGpuMemory, OfIntelsTheOwnOnly) {
  v1::HostFacts facts;
  facts.mutable_hello()->add_gpus()->set_vendor(v1::GPU_VENDOR_INTEL);
  EXPECT_EQ(check_gpu_memory(facts).seen, "no process holds any");
  add_untold(facts, v1::GPU_VENDOR_INTEL, 0, true);
  EXPECT_EQ(check_gpu_memory(facts).seen,
            "no visible process holds any; processes of other users or outside the container are not visible");
}

TEST(CheckGpuMemory, WhatIsNotToldIsNotNone) {
  v1::HostFacts facts;
  facts.mutable_hello()->add_gpus()->set_vendor(v1::GPU_VENDOR_NVIDIA);
  facts.mutable_hello()->add_gpus()->set_vendor(v1::GPU_VENDOR_AMD);
  add_untold(facts, v1::GPU_VENDOR_NVIDIA, 0, false);
  EXPECT_EQ(check_gpu_memory(facts),
            (Check{"gpu memory", CheckState::kOk,
                   "no visible process holds any; the driver does not report the users of GPU 0", ""}));
  v1::HostFacts with_user = facts;
  with_user.add_gpu_users()->set_vendor(v1::GPU_VENDOR_AMD);
  EXPECT_THAT(check_gpu_memory(with_user).seen, HasSubstr("AMD GPU 0: memory of pid 0"));
  EXPECT_THAT(check_gpu_memory(with_user).seen, HasSubstr("; the driver does not report the users of GPU 0"));
  add_untold(facts, v1::GPU_VENDOR_AMD, 0, false);
  EXPECT_EQ(check_gpu_memory(facts).seen, "the driver does not report the users of GPU 0, AMD GPU 0");
}

void add_nic(v1::HostFacts& facts, const char* name, const char* kind, const char* state, std::int64_t mbps) {
  v1::NicFact& nic = *facts.add_nics();
  nic.set_name(name);
  nic.set_kind(kind);
  nic.set_state(state);
  nic.set_speed_mbps(mbps);
}

void add_address(v1::HostFacts& facts, const char* name, const char* address) {
  v1::NetworkInterface& entry = *facts.mutable_hello()->add_interfaces();
  entry.set_name(name);
  entry.set_address(address);
}

TEST(CheckNics, AddressesSpeedsAndPorts) {
  v1::HostFacts facts;
  add_address(facts, "lo", "127.0.0.1");
  EXPECT_EQ(check_nics(facts).state, CheckState::kWarn);
  EXPECT_EQ(check_nics(facts).seen, "only a loopback address");
  add_address(facts, "eth0", "10.0.0.2");
  add_address(facts, "eth0", "fd00::2");
  add_nic(facts, "eth0", "ethernet", "up", 25'000);
  add_nic(facts, "eth1", "ethernet", "down", 0);
  EXPECT_EQ(check_nics(facts), (Check{"nics", CheckState::kOk, "eth0 10.0.0.2 fd00::2 25 Gbit/s", ""}));
  add_nic(facts, "mlx5_0/1", "infiniband", "ACTIVE", 100'000);
  EXPECT_EQ(check_nics(facts).state, CheckState::kOk);
  add_nic(facts, "mlx5_1/1", "infiniband", "DOWN", 2'500);
  EXPECT_EQ(check_nics(facts).state, CheckState::kWarn);
  EXPECT_THAT(check_nics(facts).seen, HasSubstr("mlx5_1/1 2500 Mbit/s DOWN"));
  EXPECT_THAT(check_nics(facts).advice, HasSubstr("mlx5_1/1"));
}

TEST(CheckPython, VersionsOrWhyNot) {
  v1::HostFacts facts;
  EXPECT_EQ(check_python(facts).state, CheckState::kWarn);
  EXPECT_THAT(check_python(facts).seen, HasSubstr("not checked"));
  facts.mutable_python()->set_failure("cannot run 'python3': not found in PATH (/bin)");
  EXPECT_EQ(check_python(facts).state, CheckState::kWarn);
  EXPECT_THAT(check_python(facts).seen, HasSubstr("not found in PATH"));
  EXPECT_EQ(check_torch(facts).seen, "unknown without python3");
  facts.mutable_python()->Clear();
  facts.mutable_python()->set_version("3.11.2");
  facts.mutable_python()->set_path("/usr/bin/python3");
  EXPECT_EQ(check_python(facts), (Check{"python", CheckState::kOk, "3.11.2, /usr/bin/python3", ""}));
  EXPECT_EQ(check_torch(facts).seen, "not installed for /usr/bin/python3");
  facts.mutable_python()->set_torch("2.1.0+cu121");
  EXPECT_EQ(check_torch(facts), (Check{"torch", CheckState::kOk, "2.1.0+cu121", ""}));
}

}  // namespace
}  // namespace muster::launcherd::checks_programs_test
