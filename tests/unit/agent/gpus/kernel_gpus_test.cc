#include "agent/gpus/kernel_gpus.h"

#include <gtest/gtest.h>

#include "tests/unit/agent/gpus/gpu_tree.h"

namespace muster::agent::gpus::kernel_gpus_test {
namespace {

constexpr std::uint64_t kGib = 1ULL << 30;

TEST(KernelGpus, AmdsMemory) {
  const testing_support::GpuTree tree;
  tree.add_amd(1, 0xc1, 4711);
  tree.set_vram(0xc1, 64 * kGib, 3 * kGib);
  tree.add_amd(2, 0xc2, 4712);  // an old driver: no such files
  const auto gpus = amd_gpus(tree.path());
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].gpu_id, 4711u);
  EXPECT_EQ(gpus[0].pci, "0000:c1:00.0");
  EXPECT_EQ(memory_of(gpus[0], tree.path()), (GpuMemory{64 * kGib, 3 * kGib}));
  EXPECT_EQ(memory_of(gpus[1], tree.path()), GpuMemory());
}

// What the device tells is then of all partitions together.
TEST(KernelGpus, MemoryOfAPartitionIsNotKnown) {
  const testing_support::GpuTree tree;
  tree.add_amd(1, 0xc1, 4711);
  tree.add_amd(2, 0xc1, 4712);
  tree.set_vram(0xc1, 64 * kGib, 3 * kGib);
  for (const AmdGpu& gpu : amd_gpus(tree.path())) {
    EXPECT_FALSE(gpu.is_whole);
    EXPECT_EQ(memory_of(gpu, tree.path()), GpuMemory());
  }
}

TEST(KernelGpus, IntelsMemoryWhereItsDriverHasAFileForIt) {
  const testing_support::GpuTree tree;
  tree.add_intel("card0", 3);
  tree.add_intel("card1", 4);
  tree.write("sys/class/drm/card1/lmem_total_bytes", fmt::format("{}\n", 128 * kGib));
  tree.write("sys/class/drm/card1/lmem_avail_bytes", fmt::format("{}\n", 120 * kGib));
  const auto gpus = intel_gpus(tree.path());
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(memory_of(gpus[0]), GpuMemory());
  EXPECT_EQ(memory_of(gpus[1]), (GpuMemory{128 * kGib, 8 * kGib}));
}

TEST(KernelGpus, WhatIsNoNumber) {
  const testing_support::GpuTree tree;
  for (const char* const text : {"", "\n", "-1\n", "12 MiB\n", "0x10\n", "99999999999999999999999\n"}) {
    tree.write("number", text);
    EXPECT_FALSE(read_number(tree / "number")) << text;
  }
  EXPECT_FALSE(read_number(tree / "nothing"));
  tree.write("number", "18446744073709551615\n");
  EXPECT_EQ(read_number(tree / "number"), ~std::uint64_t{0});
}

TEST(KernelGpus, MoreThanThereIsIsNotKnown) {
  const testing_support::GpuTree tree;
  tree.add_amd(1, 0xc1, 4711);
  tree.set_vram(0xc1, 64, 65);
  const auto gpus = amd_gpus(tree.path());
  ASSERT_EQ(gpus.size(), 1u);
  EXPECT_EQ(memory_of(gpus[0], tree.path()), (GpuMemory{.total = 64}));
}

}  // namespace
}  // namespace muster::agent::gpus::kernel_gpus_test
