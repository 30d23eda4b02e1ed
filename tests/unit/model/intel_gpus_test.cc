#include "model/intel_gpus.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "model/gpu_binding.h"

namespace muster::model::intel_gpus_test {
namespace {

NodeShape three_gpus() {
  return with_described_gpus({}, {.gpus = 3, .tiles = 2});
}

std::string names(GpuBind gpu_bind, const GpuMasks& masks) {
  const NodeShape node = three_gpus();
  const auto devices = intel_devices(node, gpu_bind, masks);
  if (!devices.ok()) return devices.status().message();
  std::vector<std::string> names;
  for (const VisibleGpu& device : *devices) names.push_back(device.name);
  return base::join(names, " ");
}

TEST(IntelDevices, FlatIsTheDriversDefault) {
  EXPECT_EQ(names(GpuBind::kTile, {}), "0 1 2 3 4 5");
  EXPECT_EQ(names(GpuBind::kTile, {.ze_hierarchy = ""}), "0 1 2 3 4 5");
  EXPECT_EQ(names(GpuBind::kTile, {.ze_hierarchy = "COMBINED"}), "0 1 2 3 4 5");
  EXPECT_EQ(names(GpuBind::kTile, {.ze_hierarchy = "COMPOSITE"}), "0.0 0.1 1.0 1.1 2.0 2.1");
  EXPECT_EQ(names(GpuBind::kOne, {}), "0,1 2,3 4,5");
  EXPECT_EQ(names(GpuBind::kOne, {.ze_hierarchy = "COMPOSITE"}), "0 1 2");
  EXPECT_EQ(names(GpuBind::kTile, {.ze_hierarchy = "flat"}),
            "ZE_FLAT_DEVICE_HIERARCHY is 'flat', but must be FLAT, COMPOSITE or COMBINED");
}

TEST(IntelDevices, TheUsersMaskIsWhatThereIs) {
  EXPECT_EQ(names(GpuBind::kTile, {.ze = "4,1"}), "1 4");
  EXPECT_EQ(names(GpuBind::kOne, {.ze = "1,4,5"}), "1 4,5");
  EXPECT_EQ(names(GpuBind::kTile, {.ze = ""}), "0 1 2 3 4 5");
  EXPECT_EQ(names(GpuBind::kTile, {.ze = "2,0.1", .ze_hierarchy = "COMPOSITE"}), "0.1 2.0 2.1");
  EXPECT_EQ(names(GpuBind::kOne, {.ze = "2,0.1", .ze_hierarchy = "COMPOSITE"}), "0.1 2");
  EXPECT_EQ(names(GpuBind::kTile, {.ze = "0.1"}),
            "ZE_AFFINITY_MASK holds '0.1', which names nothing with ZE_FLAT_DEVICE_HIERARCHY=FLAT");
  EXPECT_EQ(names(GpuBind::kTile, {.ze = "6"}), "ZE_AFFINITY_MASK names '6', but the host has 6 tiles");
  EXPECT_EQ(names(GpuBind::kTile, {.ze = "3", .ze_hierarchy = "COMPOSITE"}),
            "ZE_AFFINITY_MASK names '3', but the host has 6 tiles");
}

// The masks of local ranks, or why not.
std::string masks(const NodeShape& node, int ranks, const Pinning& pinning, const GpuMasks& job_masks = {}) {
  const auto binding = bind_node(node, ranks, pinning, job_masks);
  if (!binding.ok()) return binding.status().message();
  std::vector<std::string> masks;
  for (const RankGpus& gpus : binding->gpus) {
    if (gpus.variables.empty()) {
      masks.emplace_back("-");
      continue;
    }
    EXPECT_EQ(gpus.variables[0], (std::pair<std::string, std::string>{"ZE_ENABLE_PCI_ID_DEVICE_ORDER", "1"}));
    EXPECT_EQ(gpus.variables[1].first, "ZE_AFFINITY_MASK");
    masks.push_back(gpus.variables[1].second);
  }
  return base::join(masks, " ");
}

TEST(BindTiles, EachRankOne) {
  EXPECT_EQ(masks(three_gpus(), 6, {.gpu_bind = GpuBind::kTile}), "0 1 2 3 4 5");
  EXPECT_EQ(masks(three_gpus(), 8, {.gpu_bind = GpuBind::kTile, .share_gpu = true}), "0 1 2 3 4 5 0 1");
  EXPECT_EQ(masks(three_gpus(), 3, {.gpu_bind = GpuBind::kTile, .gpu_order = GpuOrder::kReverse}), "5 4 3");
  EXPECT_EQ(masks(three_gpus(), 4, {.gpu_bind = GpuBind::kTile, .gpu_order = GpuOrder::kRoundRobin}), "0 2 4 1");
  EXPECT_EQ(masks(three_gpus(), 3, {.gpu_bind = GpuBind::kTile, .gpu_order = GpuOrder::kList, .gpu_list = {2, 0}}),
            "4 5 0");
  EXPECT_EQ(masks(three_gpus(), 2, {.gpu_bind = GpuBind::kOne}, {.ze_hierarchy = "COMPOSITE"}), "0 1");
  EXPECT_EQ(masks(three_gpus(), 8, {.gpu_bind = GpuBind::kTile}),
            "8 ranks need 1 tile each, but ranks may use 6 tiles: use fewer ranks, --share-gpu if several may share "
            "one, or --gpu-bind none");
  EXPECT_EQ(masks(three_gpus(), 3, {.gpu_bind = GpuBind::kTile, .gpus_per_rank = 2}), "0,1 2,3 4,5");
  EXPECT_EQ(masks(three_gpus(), 2, {}), "- -");  // ZE_AFFINITY_MASK cannot reorder
}

// What the user means by his numbers is Level Zero's to say: another order would make others of them.
TEST(BindTiles, AMaskInLevelZerosOwnOrderStaysInIt) {
  const Pinning pinning{.gpu_bind = GpuBind::kTile};
  const auto variables = [&](const GpuMasks& masks) {
    const auto binding = bind_node(three_gpus(), 1, pinning, masks);
    EXPECT_TRUE(binding.ok()) << binding.status();
    std::string text;
    for (const auto& [name, value] : binding->gpus.at(0).variables) text += name + "=" + value + ";";
    return text;
  };
  EXPECT_EQ(variables({.ze = "4"}), "ZE_AFFINITY_MASK=4;");
  EXPECT_EQ(variables({.ze = "4", .ze_order = "0"}), "ZE_AFFINITY_MASK=4;");
  EXPECT_EQ(variables({.ze = "4", .ze_order = "1"}), "ZE_ENABLE_PCI_ID_DEVICE_ORDER=1;ZE_AFFINITY_MASK=4;");
  EXPECT_EQ(variables({.ze = "", .ze_order = "0"}), "ZE_ENABLE_PCI_ID_DEVICE_ORDER=1;ZE_AFFINITY_MASK=0;");
  NodeShape unlike = three_gpus();
  unlike.gpus[1].tiles = 1;
  EXPECT_EQ(masks(unlike, 1, pinning, {.ze = "4", .ze_order = "1"}), "4");
  EXPECT_EQ(masks(unlike, 1, pinning, {.ze = "4"}),
            "ZE_AFFINITY_MASK is set, and the GPUs differ: set ZE_ENABLE_PCI_ID_DEVICE_ORDER=1, so that its numbers "
            "have a known meaning");
}

TEST(BindTiles, WhoDescribesThem) {
  NodeShape others;
  others.gpus.emplace_back().uuid = "GPU-1";
  EXPECT_EQ(masks(others, 2, {.gpu_bind = GpuBind::kTile}),
            "--gpu-bind tile: the kernel shows no Intel GPU; describe the GPUs, as --gpu-tiles 6x2");
  EXPECT_EQ(masks({}, 2, {.gpu_bind = GpuBind::kTile}), "- -");
  EXPECT_EQ(masks({}, 2, {.gpu_bind = GpuBind::kTile, .gpus = 1, .tiles = 2}), "0 1");
  EXPECT_EQ(masks(three_gpus(), 1, {.gpu_bind = GpuBind::kTile, .gpu_order = GpuOrder::kList, .gpu_list = {3}}),
            "--gpu-order names GPU 3, but ranks may use 0-2");
  const auto own = bind_node(three_gpus(), 3, {.gpu_bind = GpuBind::kTile, .gpus = 9, .tiles = 9}, {});
  EXPECT_EQ(own->visible_gpus, 6);  // the kernel's word counts
  EXPECT_EQ(own->gpus[2].index, 1);
  EXPECT_EQ(own->gpus[1].tile, 1);
}

}  // namespace
}  // namespace muster::model::intel_gpus_test
