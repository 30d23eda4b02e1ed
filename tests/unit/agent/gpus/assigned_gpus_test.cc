#include "agent/gpus/assigned_gpus.h"

#include <gtest/gtest.h>

namespace muster::agent::assigned_gpus_test {
namespace {

using model::GpuMasks;
using model::GpuShape;
using model::GpuVendor;

const std::vector<GpuShape> kKnown = {
    {.index = 0, .uuid = "GPU-a"},
    {.index = 1, .uuid = "GPU-b", .is_divided = true, .parts = {{.uuid = "MIG-1"}, {.uuid = "MIG-2"}}},
    {.vendor = GpuVendor::kAmd, .index = 0, .uuid = "GPU-00"},
    {.vendor = GpuVendor::kAmd, .index = 1, .uuid = "GPU-01"},
    {.vendor = GpuVendor::kIntel, .index = 0, .tiles = 2},
    {.vendor = GpuVendor::kIntel, .index = 1, .tiles = 2}};

// "nvidia:0", "nvidia:1 MIG-1": of all there are.
std::string given(const GpuMasks& masks, const std::vector<GpuShape>& known = kKnown) {
  AssignedGpus given;
  given.add(known, masks);
  std::string text;
  for (const GpuShape& gpu : kKnown) {
    const GpuName name{.vendor = gpu.vendor, .index = gpu.index};
    if (given.has(name)) text += text_of(name) + ";";
    for (const model::GpuPart& part : gpu.parts) {
      if (given.has(part_of(name, part.uuid))) text += part.uuid + ";";
    }
  }
  EXPECT_EQ(given.is_any(), !text.empty());
  return text;
}

TEST(AssignedGpus, ByEachVendorsMask) {
  EXPECT_EQ(given({}), "");
  EXPECT_EQ(given({.cuda = "0"}), "GPU 0;");
  EXPECT_EQ(given({.cuda = "GPU-a"}), "GPU 0;");
  EXPECT_EQ(given({.cuda = "MIG-2"}), "GPU 1;MIG-2;");
  EXPECT_EQ(given({.rocr = "1"}), "AMD GPU 1;");
  EXPECT_EQ(given({.rocr = "1", .hip = "0"}), "AMD GPU 1;");
  EXPECT_EQ(given({.ze = "1", .ze_hierarchy = "COMPOSITE", .ze_order = "1"}), "Intel GPU 1;");
  EXPECT_EQ(given({.ze = "1", .ze_order = "1"}), "Intel GPU 0;");
}

TEST(AssignedGpus, NoneAreNone) {
  for (const char* const mask : {"", "-1", "NoDevFiles", "all"}) EXPECT_EQ(given({.cuda = mask}), "") << mask;
}

TEST(AssignedGpus, WhatNobodyCanReadIsAll) {
  EXPECT_EQ(given({.cuda = "MIG-unknown"}), "GPU 0;GPU 1;MIG-1;MIG-2;");
  EXPECT_EQ(given({.cuda = "0"}, {}), "GPU 0;GPU 1;MIG-1;MIG-2;") << "those that were not seen at the start";
  EXPECT_EQ(given({.cuda = "GPU-x"}, {{.index = 0}}), "GPU 0;GPU 1;MIG-1;MIG-2;");
  EXPECT_EQ(given({.cuda = "GPU-x", .hip = ""}, {{.vendor = GpuVendor::kAmd, .index = 0}}), "AMD GPU 0;AMD GPU 1;");
  EXPECT_EQ(given({.ze = "1", .ze_order = "1"}, {}), "Intel GPU 0;Intel GPU 1;");
  EXPECT_EQ(given({.ze = "1"}), "Intel GPU 0;Intel GPU 1;") << "an order of Level Zero's own";
}

// HIP takes CUDA's mask where there is none of NVIDIA's.
TEST(AssignedGpus, CudasMaskOverAmds) {
  EXPECT_EQ(given({.cuda = "1"}, {kKnown.begin() + 2, kKnown.begin() + 4}), "AMD GPU 1;");
}

TEST(AssignedGpus, OfAllRanks) {
  AssignedGpus given;
  given.add(kKnown, {.cuda = "GPU-a"});
  AssignedGpus more;
  more.add(kKnown, {.rocr = "0"});
  more.add({}, {.ze = "0", .ze_order = "1"});
  given.add(more);
  EXPECT_TRUE(given.has({GpuVendor::kNvidia, 0}) && given.has({GpuVendor::kAmd, 0}));
  EXPECT_FALSE(given.has({GpuVendor::kNvidia, 1}) || given.has({GpuVendor::kAmd, 1}));
  EXPECT_FALSE(given.has({GpuVendor::kNvidia, -1, "GPU-new"}));
  EXPECT_TRUE(given.has_any_of(GpuVendor::kAmd));
  EXPECT_TRUE(given.has({GpuVendor::kIntel, 7}));
}

TEST(AssignedGpus, MasksOfAnEnvironment) {
  const GpuMasks masks = masks_in({"A=1", "CUDA_VISIBLE_DEVICES=0,1", "ZE_AFFINITY_MASK=", "CUDA_DEVICE_ORDER"});
  EXPECT_EQ(masks, (GpuMasks{.cuda = "0,1", .ze = ""}));
}

}  // namespace
}  // namespace muster::agent::assigned_gpus_test
