#include "agent/gpus/gpu_loads.h"

#include <gtest/gtest.h>

namespace muster::agent::gpu_loads_test {
namespace {

constexpr std::uint64_t kGib = 1ULL << 30;

using model::GpuVendor;

TEST(GpuLoads, OfNvidias) {
  gpus::GpuReport report{.driver = "550.54.15"};
  report.gpus.push_back({.uuid = "GPU-a",
                         .memory_total = 80 * kGib,
                         .memory_used = 3 * kGib,
                         .busy_percent = 60,
                         .knows_processes = true,
                         .processes = {{.pid = 1}, {.pid = 2}}});
  report.gpus.push_back({.uuid = "GPU-b", .is_divided = true});
  v1::HostLoad load;
  add_gpu_loads({{.index = 0, .uuid = "GPU-a"}, {.index = 1, .uuid = "GPU-b"}, {.index = 2, .uuid = "GPU-gone"}},
                report, load);
  ASSERT_EQ(load.gpus_size(), 2);
  EXPECT_EQ(load.gpus(0).busy_percent(), 60);
  EXPECT_EQ(load.gpus(0).memory_used_mib(), 3 << 10);
  EXPECT_EQ(load.gpus(0).processes(), 2);
  EXPECT_FALSE(load.gpus(0).busy_unknown());
  EXPECT_EQ(load.gpus(1).index(), 1);
  EXPECT_TRUE(load.gpus(1).busy_unknown());
  EXPECT_FALSE(load.gpus(1).has_memory_used_mib());
  EXPECT_FALSE(load.gpus(1).has_processes());
}

TEST(GpuLoads, OfOthers) {
  const std::vector<model::GpuShape> known = {{.vendor = GpuVendor::kAmd, .index = 0, .pci = "0000:c1:00.0"},
                                              {.vendor = GpuVendor::kAmd, .index = 1, .pci = "0000:c2:00.0"},
                                              {.vendor = GpuVendor::kIntel, .index = 0}};
  const gpus::FileGpu amd{
      .index = 1, .pci = "0000:c2:00.0", .memory_used = 5 * kGib, .busy_percent = 63, .shows_all = true};
  v1::HostLoad load;
  add_gpu_loads(known, {.others = {amd, {.is_intel = true, .index = 0, .processes = {{.pid = 4}}}}}, load);
  ASSERT_EQ(load.gpus_size(), 2);
  EXPECT_EQ(load.gpus(0).index(), 1);
  EXPECT_EQ(load.gpus(0).busy_percent(), 63);
  EXPECT_FALSE(load.gpus(0).busy_unknown());
  EXPECT_EQ(load.gpus(0).memory_used_mib(), 5 << 10);
  EXPECT_TRUE(load.gpus(0).has_processes());
  EXPECT_EQ(load.gpus(0).processes(), 0);
  EXPECT_EQ(load.gpus(1).vendor(), v1::GPU_VENDOR_INTEL);
  EXPECT_TRUE(load.gpus(1).busy_unknown());
  EXPECT_FALSE(load.gpus(1).has_memory_used_mib());
  EXPECT_EQ(load.gpus(1).processes(), 1);
}

// Files had not told its UUID, at the start of an agent whose library failed then.
TEST(GpuLoads, ByThePlaceOfOneWhoseUuidWasNotKnown) {
  v1::HostLoad load;
  add_gpu_loads(
      {{.index = 0, .pci = "0000:43:00.0"}, {.index = 1}},
      {.driver = "550", .gpus = {{.uuid = "GPU-b"}, {.uuid = "GPU-a", .pci = "0000:43:00.0", .busy_percent = 7}}},
      load);
  ASSERT_EQ(load.gpus_size(), 1);
  EXPECT_EQ(load.gpus(0).index(), 0);
  EXPECT_EQ(load.gpus(0).busy_percent(), 7);
}

// One was taken out, and those behind it count anew.
TEST(GpuLoads, AnotherInItsPlaceIsAnother) {
  std::vector<model::GpuShape> known = {{.vendor = GpuVendor::kAmd, .index = 0, .pci = "0000:c1:00.0"}};
  const gpus::GpuReport report{.others = {{.index = 0, .pci = "0000:c2:00.0", .memory_used = 5 * kGib}}};
  v1::HostLoad load;
  add_gpu_loads(known, report, load);
  EXPECT_EQ(load.gpus_size(), 0);
  known.push_back({.vendor = GpuVendor::kAmd, .index = 1, .pci = "0000:c2:00.0"});
  add_gpu_loads(known, report, load);
  ASSERT_EQ(load.gpus_size(), 1);
  EXPECT_EQ(load.gpus(0).vendor(), v1::GPU_VENDOR_AMD);
  EXPECT_EQ(load.gpus(0).index(), 1);
  EXPECT_EQ(load.gpus(0).memory_used_mib(), 5 << 10);
}

// Others' processes are not shown: none of one's own is not none.
TEST(GpuLoads, NoProcessOfOnesOwnSaysNothing) {
  v1::HostLoad load;
  add_gpu_loads({{.vendor = GpuVendor::kIntel, .index = 0}}, {.others = {{.is_intel = true}}}, load);
  ASSERT_EQ(load.gpus_size(), 1);
  EXPECT_FALSE(load.gpus(0).has_processes());
}

}  // namespace
}  // namespace muster::agent::gpu_loads_test
