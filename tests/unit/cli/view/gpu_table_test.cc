#include "cli/view/gpu_table.h"

#include <gtest/gtest.h>

#include "cli/view/host_table.h"

namespace muster::cli::gpu_table_test {
namespace {

v1::LauncherHost host_with_gpus() {
  v1::LauncherHost host;
  host.set_name("n1");
  host.set_slots(4);
  for (int i = 0; i < 3; ++i) {
    v1::Gpu& gpu = *host.add_gpus();
    gpu.set_vendor(v1::GPU_VENDOR_NVIDIA);
    gpu.set_index(i);
    gpu.set_model("NVIDIA H100");
    gpu.set_memory_mib(81'559);
    v1::GpuLoad& load = *host.mutable_load()->add_gpus();
    load.set_vendor(v1::GPU_VENDOR_NVIDIA);
    load.set_index(i);
    load.set_busy_percent(10 * i);
    load.set_memory_used_mib(100);
    load.set_processes(i);
  }
  v1::Gpu& divided = *host.mutable_gpus(2);
  divided.set_divided(true);
  divided.add_parts()->set_uuid("MIG-1");
  divided.mutable_parts(0)->set_model("MIG 1g.10gb");
  divided.mutable_parts(0)->set_memory_mib(9'856);
  divided.add_parts()->set_uuid("MIG-\x1b");
  host.mutable_load()->mutable_gpus(2)->set_busy_unknown(true);
  host.set_gpu_problem("GPU 3 cannot be used");
  return host;
}

v1::LauncherHost host_of_files() {  // where no driver's library tells more
  v1::LauncherHost host;
  host.set_name("node-2");
  host.set_slots(2);
  v1::Gpu& gpu = *host.add_gpus();
  gpu.set_vendor(v1::GPU_VENDOR_AMD);
  gpu.set_pci("0000:c1:00.0");
  gpu.set_numa(1);
  return host;
}

TEST(GpuTable, TheHostsLineSumsWhatIsKnown) {
  v1::LauncherHost host = host_with_gpus();
  const std::string table = format_hosts({host});
  EXPECT_EQ(table.substr(table.find("  gpus: ")),
            "  gpus: 3 x NVIDIA H100 of 79 GiB; 1 divided (MIG), 2 parts; 300 MiB used, 3 processes\n"
            "  gpus: GPU 3 cannot be used\n");
  EXPECT_EQ(gpu_summary(host_of_files()), "");
  *host.add_gpus() = host_of_files().gpus(0);
  host.mutable_gpus(2)->mutable_parts()->RemoveLast();
  for (v1::GpuLoad& load : *host.mutable_load()->mutable_gpus()) load.clear_memory_used_mib();
  host.mutable_load()->mutable_gpus(2)->clear_processes();
  EXPECT_EQ(gpu_summary(host), "1 x AMD GPU, 3 x NVIDIA H100 of 79 GiB; 1 divided (MIG), 1 part; 1 process");
  host.clear_load();
  EXPECT_EQ(gpu_summary(host), "1 x AMD GPU, 3 x NVIDIA H100 of 79 GiB; 1 divided (MIG), 1 part");
}

// Of a driver that names no model and tells no memory, but who uses it.
TEST(GpuTable, TheUseAloneIsTold) {
  v1::LauncherHost host = host_of_files();
  v1::GpuLoad& load = *host.mutable_load()->add_gpus();
  load.set_vendor(v1::GPU_VENDOR_AMD);
  load.set_busy_unknown(true);
  EXPECT_EQ(gpu_summary(host), "");
  load.set_processes(3);
  EXPECT_EQ(gpu_summary(host), "1 x AMD GPU; 3 processes");
}

TEST(GpuTable, ALineEachGpuAndPart) {
  EXPECT_EQ(format_gpus({}), "");
  EXPECT_EQ("\n" + format_gpus({host_with_gpus(), host_of_files()}), R"(
host     gpu  model                memory        used  busy  processes  numa  pci           uuid
n1         0  NVIDIA H100          79 GiB     100 MiB    0%          0     -  -             -
n1         1  NVIDIA H100          79 GiB     100 MiB   10%          1     -  -             -
n1         2  NVIDIA H100 (MIG)    79 GiB     100 MiB     -          2     -  -             -
n1       2.0  MIG 1g.10gb        9856 MiB           -     -          -     -  -             MIG-1
n1       2.1  -                         -           -     -          -     -  -             MIG-\x1b
node-2     0  AMD GPU                   -           -     -          -     1  0000:c1:00.0  -
)");
}

}  // namespace
}  // namespace muster::cli::gpu_table_test
