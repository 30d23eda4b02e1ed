// Compares our binder with the masks that real sites print in their documentation. The machines are hwloc's synthetic
// topologies with the same sockets, NUMA nodes, cores, threads and numbers. No such machine is used.
#include <hwloc.h>

#include <memory>

#include <gtest/gtest.h>

#include "agent/host/topology.h"
#include "base/strings.h"
#include "model/gpu_binding.h"

namespace muster::agent::site_pinning_test {
namespace {

using model::BindTo;
using model::GpuBind;
using model::GpuOrder;
using model::GpuVendor;
using model::NodeShape;
using model::Pinning;

NodeShape machine(const std::string& topology) {
  hwloc_topology_t raw = nullptr;
  EXPECT_EQ(hwloc_topology_init(&raw), 0);
  const std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)> guard(raw, &hwloc_topology_destroy);
  EXPECT_EQ(hwloc_topology_set_synthetic(raw, topology.c_str()), 0);
  EXPECT_EQ(hwloc_topology_load(raw), 0);
  const std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)> all(hwloc_bitmap_alloc_full(),
                                                                          &hwloc_bitmap_free);
  return node_shape_of(raw, all.get());
}

// One GPU at each of these NUMA nodes, numbered in this order.
void add_gpus(GpuVendor vendor, int tiles, const std::vector<int>& numa_nodes, NodeShape& node) {
  for (const int numa : numa_nodes) {
    model::GpuShape& gpu = node.gpus.emplace_back();
    gpu.vendor = vendor;
    gpu.index = static_cast<int>(node.gpus.size()) - 1;
    if (vendor == GpuVendor::kNvidia) gpu.uuid = fmt::format("GPU-{}", gpu.index);
    gpu.numa = numa;
    gpu.tiles = tiles;
  }
}

// KNL in quad mode: core i has the threads i, i+64, i+128, i+192.
NodeShape theta() {
  return machine("package:1 [numa] core:64 pu:4(indexes=4*64:64*1)");
}

// DGX A100: two sockets of four NUMA nodes; the GPUs lie at every second node, as nvidia-smi topo shows it.
NodeShape thetagpu() {
  NodeShape node = machine("package:2 numa:4 core:16 pu:2(indexes=2*128:128*1)");
  add_gpus(GpuVendor::kNvidia, 1, {3, 3, 1, 1, 7, 7, 5, 5}, node);
  return node;
}

// Four NUMA nodes of eight cores; GPU 0 is at the last one.
NodeShape polaris() {
  NodeShape node = machine("package:1 numa:4 core:8 pu:2(indexes=2*32:32*1)");
  add_gpus(GpuVendor::kNvidia, 1, {3, 2, 1, 0}, node);
  return node;
}

// Three GPUs of two tiles at each socket.
NodeShape aurora() {
  NodeShape node = machine("package:2 [numa] core:52 pu:2(indexes=2*104:104*1)");
  add_gpus(GpuVendor::kIntel, 2, {0, 0, 0, 1, 1, 1}, node);
  return node;
}

std::string cpus_of(const base::Result<model::NodeBinding>& binding) {
  if (!binding.ok()) return binding.status().message();
  std::vector<std::string> lists;
  for (const model::RankBinding& rank : binding->cores) lists.push_back(model::format_cpu_list(rank.cpus));
  return base::join(lists, ":");
}

// The value of the variable for each rank.
std::string seen(const base::Result<model::NodeBinding>& binding, std::string_view variable) {
  if (!binding.ok()) return binding.status().message();
  std::vector<std::string> values;
  for (const model::RankGpus& rank : binding->gpus) {
    for (const auto& [name, value] : rank.variables) {
      if (name == variable) values.push_back(value);
    }
  }
  return base::join(values, " ");
}

std::string cpus(const NodeShape& node, int ranks, const Pinning& pinning) {
  return cpus_of(model::bind_node(node, ranks, pinning, {}));
}

TEST(Theta, OneRankAThread) {
  const NodeShape node = theta();
  ASSERT_EQ(node.cores.size(), 64U);
  ASSERT_EQ(node.cores[5].cpus, (std::vector{5, 69, 133, 197}));
  std::string expected = "0";
  for (int rank = 1; rank < 64; ++rank) expected += fmt::format(":{}", rank);
  EXPECT_EQ(cpus(node, 64, {.bind_to = BindTo::kDepth, .depth = 1, .hyperthreads = 1}), expected);  // -j 1 -d 1
}

TEST(Theta, DepthOverHyperthreads) {
  const NodeShape node = theta();
  const auto pairs = model::bind_node(node, 32, {.bind_to = BindTo::kDepth, .depth = 4, .hyperthreads = 2}, {});
  ASSERT_TRUE(pairs.ok()) << pairs.status();
  EXPECT_EQ(model::format_cpu_list(pairs->cores[0].cpus), "0-1,64-65");  // -d 4 -j 2: "rank 0 -> 0,1,64,65"
  EXPECT_EQ(model::format_cpu_list(pairs->cores[31].cpus), "62-63,126-127");
  EXPECT_EQ(pairs->cores[0].physical_cores, 2);
  // -n 4 -N 4 -d 32 -j 2, of the TensorFlow example.
  EXPECT_EQ(cpus(node, 4, {.bind_to = BindTo::kDepth, .depth = 32, .hyperthreads = 2}),
            "0-15,64-79:16-31,80-95:32-47,96-111:48-63,112-127");
  EXPECT_EQ(cpus(node, 2, {.bind_to = BindTo::kDepth, .depth = 128, .hyperthreads = 4}),
            "0-31,64-95,128-159,192-223:32-63,96-127,160-191,224-255");
}

TEST(ThetaGpu, EachRankBesideItsGpu) {
  const NodeShape node = thetagpu();
  const auto binding = model::bind_node(node, 8, {}, {});
  EXPECT_EQ(cpus_of(binding),
            "0-15,128-143:16-31,144-159:32-47,160-175:48-63,176-191:64-79,192-207:80-95,208-223:96-111,224-239:112-127,"
            "240-255");
  // Ranks in the nodes 1, 3, 5 and 7 get the GPU of their node, and the others one of their socket.
  EXPECT_EQ(seen(model::bind_node(node, 8, {.gpu_bind = GpuBind::kOne}, {}), "CUDA_VISIBLE_DEVICES"),
            "GPU-1 GPU-2 GPU-3 GPU-0 GPU-5 GPU-6 GPU-7 GPU-4");
  EXPECT_EQ(cpus(node, 8, {.bind_to = BindTo::kDepth, .depth = 16}),
            "0-15:16-31:32-47:48-63:64-79:80-95:96-111:112-127");
}

TEST(Polaris, DepthEightAndGpusInReverse) {
  const NodeShape node = polaris();
  Pinning pinning{.bind_to = BindTo::kDepth, .depth = 8, .gpu_bind = GpuBind::kOne, .gpu_order = GpuOrder::kReverse};
  const auto documented = model::bind_node(node, 4, pinning, {});
  EXPECT_EQ(cpus_of(documented), "0-7:8-15:16-23:24-31");
  const std::string reverse = "GPU-3 GPU-2 GPU-1 GPU-0";  // 3 - PMI_LOCAL_RANK % 4
  EXPECT_EQ(seen(documented, "CUDA_VISIBLE_DEVICES"), reverse);
  // The nearest GPU does not depend on the rule for cores.
  pinning.gpu_order = GpuOrder::kNearest;
  EXPECT_EQ(seen(model::bind_node(node, 4, pinning, {}), "CUDA_VISIBLE_DEVICES"), reverse);
  EXPECT_EQ(seen(model::bind_node(node, 4, {.gpu_bind = GpuBind::kOne}, {}), "CUDA_VISIBLE_DEVICES"), reverse);
  EXPECT_EQ(seen(model::bind_node(node, 4, {}, {}), "CUDA_VISIBLE_DEVICES"),
            "GPU-3,GPU-2,GPU-1,GPU-0 GPU-3,GPU-2,GPU-1,GPU-0 GPU-3,GPU-2,GPU-1,GPU-0 GPU-3,GPU-2,GPU-1,GPU-0");
}

TEST(Polaris, OtherDocumentedLayouts) {
  const NodeShape node = polaris();
  // GPU 0 <-> 24-31, 1 <-> 16-23, 2 <-> 8-15, 3 <-> 0-7.
  Pinning lists{.bind_to = BindTo::kList, .gpu_bind = GpuBind::kOne};
  ASSERT_TRUE(model::parse_bind_to("list:24-31:16-23:8-15:0-7", lists).ok());
  EXPECT_EQ(seen(model::bind_node(node, 4, lists, {}), "CUDA_VISIBLE_DEVICES"), "GPU-0 GPU-1 GPU-2 GPU-3");
  ASSERT_TRUE(model::parse_bind_to("list:0:8:16:24", lists).ok());
  EXPECT_EQ(cpus(node, 4, lists), "0:8:16:24");
  EXPECT_EQ(cpus(node, 2, {.bind_to = BindTo::kDepth, .depth = 16}), "0-15:16-31");
  EXPECT_EQ(cpus(node, 1, {.bind_to = BindTo::kDepth, .depth = 64}), "0-63");
}

constexpr const char* kAuroraLists = "1-8:9-16:17-24:25-32:33-40:41-48:53-60:61-68:69-76:77-84:85-92:93-100";

TEST(Aurora, DepthEightDoesNotCrossTheSockets) {
  const NodeShape node = aurora();
  ASSERT_EQ(node.cores[52].cpus, (std::vector{52, 156}));
  const Pinning pinning{.bind_to = BindTo::kDepth, .depth = 8, .reserved_cores = {0, 52}};
  EXPECT_EQ(cpus(node, 12, pinning), kAuroraLists);  // rank 6 begins at 53, not at 49
  EXPECT_EQ(cpus(node, 6, {.bind_to = BindTo::kDepth, .depth = 16, .reserved_cores = {0, 52}}),
            "1-16:17-32:33-48:53-68:69-84:85-100");
  Pinning lists{.reserved_cores = {0, 52}};
  ASSERT_TRUE(model::parse_bind_to(fmt::format("list:{}", kAuroraLists), lists).ok());
  EXPECT_EQ(cpus(node, 12, lists), kAuroraLists);
  const std::string share = cpus(node, 12, {.reserved_cores = {0, 52}});
  EXPECT_TRUE(share.starts_with("1-9,105-113:10-18,114-122:")) << share;
  EXPECT_TRUE(share.ends_with(":96-103,200-207")) << share;
}

TEST(Aurora, TilesCompact) {
  const NodeShape node = aurora();
  const Pinning pinning{.bind_to = BindTo::kDepth, .depth = 8, .reserved_cores = {0, 52}, .gpu_bind = GpuBind::kTile};
  const auto composite = model::bind_node(node, 12, pinning, {.ze_hierarchy = "COMPOSITE"});
  EXPECT_EQ(seen(composite, "ZE_AFFINITY_MASK"), "0.0 0.1 1.0 1.1 2.0 2.1 3.0 3.1 4.0 4.1 5.0 5.1");
  EXPECT_EQ(seen(composite, "ZE_ENABLE_PCI_ID_DEVICE_ORDER"), "1 1 1 1 1 1 1 1 1 1 1 1");
  const auto flat = model::bind_node(node, 12, pinning, {});
  EXPECT_EQ(seen(flat, "ZE_AFFINITY_MASK"), "0 1 2 3 4 5 6 7 8 9 10 11");
  EXPECT_EQ(flat->gpus[11].index, 5);
  EXPECT_EQ(flat->gpus[11].tile, 1);
}

TEST(Aurora, WholeGpus) {
  const NodeShape node = aurora();
  Pinning pinning{.gpu_bind = GpuBind::kOne};
  ASSERT_TRUE(model::parse_bind_to("list:1-16:17-32:33-48:53-68:69-84:85-100", pinning).ok());
  const auto composite = model::bind_node(node, 6, pinning, {.ze_hierarchy = "COMPOSITE"});
  EXPECT_EQ(cpus_of(composite), "1-16:17-32:33-48:53-68:69-84:85-100");
  EXPECT_EQ(seen(composite, "ZE_AFFINITY_MASK"), "0 1 2 3 4 5");
  EXPECT_EQ(seen(model::bind_node(node, 6, pinning, {}), "ZE_AFFINITY_MASK"), "0,1 2,3 4,5 6,7 8,9 10,11");
}

}  // namespace
}  // namespace muster::agent::site_pinning_test
