#include "agent/gpus/nvidia_gpus.h"

#include <gtest/gtest.h>

namespace muster::agent::nvidia_gpus_test {
namespace {

using model::GpuShape;
using model::GpuVendor;

constexpr std::uint64_t kGib = 1ULL << 30;

gpus::GpuReport two_gpus() {
  gpus::GpuReport report{.driver = "550.54.15"};
  report.gpus.push_back({.uuid = "GPU-a",
                         .model = "NVIDIA H100",
                         .pci = "0000:1b:00.0",
                         .memory_total = 80 * kGib,
                         .memory_used = 3 * kGib,
                         .busy_percent = 60,
                         .knows_processes = true,
                         .processes = {{.pid = 1}, {.pid = 2}}});
  report.gpus.push_back({.uuid = "GPU-b",
                         .pci = "0000:43:00.0",
                         .is_divided = true,
                         .parts = {{.uuid = "MIG-1", .model = "1g.10gb", .memory_total = 10 * kGib}}});
  return report;
}

TEST(NvidiaGpus, TheLibrarysWordOverThatOfFiles) {
  const std::vector<GpuShape> files = {{.uuid = "", .model = "H100", .pci = "0000:1b:00.0", .numa = 1, .cpus = {4}},
                                       {.index = 1, .pci = "0000:77:00.0"},
                                       {.vendor = GpuVendor::kAmd, .uuid = "GPU-amd"}};
  const auto gpus = with_report(files, two_gpus());
  ASSERT_EQ(gpus.size(), 3u);
  EXPECT_EQ(gpus[0], (GpuShape{.uuid = "GPU-a",
                               .model = "NVIDIA H100",
                               .pci = "0000:1b:00.0",
                               .numa = 1,
                               .cpus = {4},
                               .memory_mib = 80 << 10}));
  // Not in the files, as in a container; and who is in them only is not for this user.
  EXPECT_EQ(gpus[1], (GpuShape{.index = 1,
                               .uuid = "GPU-b",
                               .pci = "0000:43:00.0",
                               .is_divided = true,
                               .parts = {{.uuid = "MIG-1", .model = "1g.10gb", .memory_mib = 10 << 10}}}));
  EXPECT_EQ(gpus[2], files[2]);
  EXPECT_EQ(with_report(files, {.problem = "it cannot be loaded"}), files);
}

}  // namespace
}  // namespace muster::agent::nvidia_gpus_test
