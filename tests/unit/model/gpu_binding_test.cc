// Tables of whole machines: tests/unit/agent/job/golden. Here: what holds for every machine.
#include "model/gpu_binding.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/strings.h"

namespace muster::model::gpu_binding_test {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

NodeBinding bound(const NodeShape& node, int ranks, BindTo bind_to, GpuBind gpu_bind, const GpuMasks& masks) {
  auto binding = bind_node(node, ranks, {.bind_to = bind_to, .gpu_bind = gpu_bind, .share_gpu = true}, masks);
  EXPECT_TRUE(binding.ok()) << binding.status();
  return binding.ok() ? *std::move(binding) : NodeBinding();
}

struct Machine {
  NodeShape node;
  std::string text;  // for messages
};

// Up to 4 sockets of up to 3 NUMA nodes of up to 5 cores, some of them not allowed; up to 8 GPUs, each near a NUMA node
// or, rarely, of unknown place.
Machine random_machine(std::mt19937& random) {
  const auto pick = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); };
  Machine machine;
  const int sockets = pick(1, 4);
  const int nodes = pick(1, 3);
  const int cores = pick(1, 5);
  const int threads = pick(1, 2);
  const int all = sockets * nodes * cores;
  const bool has_cpuset = pick(0, 2) == 0;
  std::vector<std::vector<int>> near(static_cast<std::size_t>(sockets * nodes));
  for (int core = 0; core < all; ++core) {
    const int numa = core / cores;
    CoreShape entry{.socket = numa / nodes, .numa = numa, .cpus = {}};
    for (int thread = 0; thread < threads; ++thread) entry.cpus.push_back(core + thread * all);
    near[static_cast<std::size_t>(numa)].insert(near[static_cast<std::size_t>(numa)].end(), entry.cpus.begin(),
                                                entry.cpus.end());
    if (!has_cpuset || pick(0, 2) > 0 || core + 1 == all) machine.node.cores.push_back(entry);
  }
  machine.text =
      fmt::format("{}x{}x{}x{}, {} cores allowed, GPUs at", sockets, nodes, cores, threads, machine.node.cores.size());
  for (int i = pick(0, 8), index = 0; i > 0; --i, ++index) {
    GpuShape& gpu = machine.node.gpus.emplace_back();
    gpu.index = index;
    gpu.uuid = fmt::format("GPU-{}.", index);
    const int numa = pick(0, 9) == 0 ? -1 : pick(0, sockets * nodes - 1);
    if (numa >= 0) {
      gpu.cpus = near[static_cast<std::size_t>(numa)];
      std::ranges::sort(gpu.cpus);
    }
    machine.text += fmt::format(" {}", numa);
  }
  return machine;
}

// 0: a core of the rank lies near the GPU; 1: in a socket that has such a core; 2: neither. As the header promises it,
// found in another way than the binder's.
int distance(const NodeShape& node, const std::vector<int>& cpus, const GpuShape& gpu) {
  if (cpus.empty() || gpu.cpus.empty()) return 0;
  std::set<int> ranks_sockets;
  std::set<int> gpus_sockets;
  bool is_near = false;
  for (const CoreShape& core : node.cores) {
    for (const int cpu : core.cpus) {
      const bool is_ranks = std::ranges::find(cpus, cpu) != cpus.end();
      const bool is_gpus = std::ranges::find(gpu.cpus, cpu) != gpu.cpus.end();
      if (is_ranks) ranks_sockets.insert(core.socket);
      if (is_gpus) gpus_sockets.insert(core.socket);
      is_near = is_near || (is_ranks && is_gpus);
    }
  }
  if (is_near) return 0;
  return std::ranges::any_of(ranks_sockets, [&](int socket) { return gpus_sockets.contains(socket); }) ? 1 : 2;
}

// The most takers that can have a device within `worst` at the same time, by trying everything.
int most_seated(const std::vector<std::vector<int>>& distances, int worst, std::size_t taker, unsigned used) {
  if (taker == distances.size()) return 0;
  int best = most_seated(distances, worst, taker + 1, used);
  for (std::size_t device = 0; device < distances[taker].size(); ++device) {
    if (distances[taker][device] > worst || (used >> device & 1U) != 0) continue;
    best = std::max(best, 1 + most_seated(distances, worst, taker + 1, used | 1U << device));
  }
  return best;
}

std::vector<std::string> list_of(const RankGpus& gpus) {
  std::vector<std::string> list;
  if (gpus.variables.size() != 1 || gpus.variables[0].first != "CUDA_VISIBLE_DEVICES") return list;
  for (const std::string_view name : base::split(gpus.variables[0].second, ',')) list.emplace_back(name);
  return list;
}

void expect_shares_hold(const NodeShape& node, const std::vector<RankBinding>& cores) {
  std::set<int> sockets_there;
  for (const CoreShape& core : node.cores) sockets_there.insert(core.socket);
  std::set<int> used;
  for (const RankBinding& binding : cores) {
    std::set<int> sockets;
    for (const int cpu : binding.cpus) {
      EXPECT_TRUE(used.insert(cpu).second) << "cpu " << cpu << " is given twice";
      const auto home = std::ranges::find_if(
          node.cores, [&](const CoreShape& core) { return std::ranges::find(core.cpus, cpu) != core.cpus.end(); });
      ASSERT_NE(home, node.cores.end()) << "cpu " << cpu << " is not allowed";
      sockets.insert(home->socket);
    }
    EXPECT_TRUE(sockets.size() <= 1 || cores.size() < sockets_there.size());
  }
}

TEST(BindNode, HoldsItsPromisesOnAnyMachine) {
  constexpr unsigned kSeed = 20260101;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 1500; ++round) {
    const Machine machine = random_machine(random);
    const int ranks = std::uniform_int_distribution<int>(1, 10)(random);
    SCOPED_TRACE(fmt::format("seed {} round {}: {}; {} ranks", kSeed, round, machine.text, ranks));
    const NodeShape& node = machine.node;
    const auto order = bound(node, ranks, BindTo::kShare, GpuBind::kOrder, {});
    const auto one = bound(node, ranks, BindTo::kShare, GpuBind::kOne, {});
    expect_shares_hold(node, order.cores);
    ASSERT_EQ(order.gpus.size(), static_cast<std::size_t>(ranks));
    EXPECT_EQ(order.visible_gpus, static_cast<int>(node.gpus.size()));
    if (node.gpus.empty()) {
      EXPECT_FALSE(order.gpus[0].index || !order.gpus[0].variables.empty());
      continue;
    }
    // The same list for all, every GPU in it once.
    const std::vector<std::string> list = list_of(order.gpus[0]);
    EXPECT_EQ(std::set<std::string>(list.begin(), list.end()).size(), node.gpus.size());
    const std::size_t count = list.size();
    std::vector<std::vector<int>> distances;
    int seated[3] = {};
    for (std::size_t rank = 0; rank < order.gpus.size(); ++rank) {
      EXPECT_EQ(list_of(order.gpus[rank]), list);
      // set_device(local_rank), modulo where there are more ranks, and device 0 under `one`: the same GPU.
      const int own = *order.gpus[rank].index;
      EXPECT_EQ(list[rank % count], node.gpus[static_cast<std::size_t>(own)].uuid);
      EXPECT_EQ(list_of(one.gpus[rank]), std::vector<std::string>{list[rank % count]});
      EXPECT_EQ(one.gpus[rank].index, own);
      if (rank >= count) continue;
      std::vector<int> cpus;  // of all that share this GPU
      for (std::size_t other = rank; other < order.cores.size(); other += count) {
        cpus.insert(cpus.end(), order.cores[other].cpus.begin(), order.cores[other].cpus.end());
      }
      std::vector<int>& to = distances.emplace_back();
      for (const GpuShape& gpu : node.gpus) to.push_back(distance(node, cpus, gpu));
      ++seated[to[static_cast<std::size_t>(own)]];
    }
    // As many as possible in their own NUMA node.
    EXPECT_EQ(seated[0], most_seated(distances, 0, 0, 0));
    // Shares are those of a host without GPUs, dealt out differently where GPUs are shared.
    auto with = order.cores;
    auto without = bind_ranks(node, ranks, BindTo::kShare);
    if (static_cast<std::size_t>(ranks) > count) {
      const auto by_cpus = [](const RankBinding& a, const RankBinding& b) { return a.cpus < b.cpus; };
      std::ranges::sort(with, by_cpus);
      std::ranges::sort(without, by_cpus);
    }
    for (std::size_t rank = 0; rank < with.size(); ++rank) EXPECT_EQ(with[rank].cpus, without[rank].cpus);
  }
}

NodeShape two_sockets() {
  NodeShape node;
  for (int cpu = 0; cpu < 4; ++cpu) node.cores.push_back({cpu / 2, cpu / 2, {cpu}});
  node.gpus = {{.index = 0, .uuid = "GPU-a", .numa = 1, .cpus = {2, 3}},
               {.index = 1, .uuid = "GPU-b", .numa = 0, .cpus = {0, 1}}};
  return node;
}

Variables variables(const NodeShape& node, GpuBind gpu_bind, const GpuMasks& masks = {}) {
  return bound(node, 2, BindTo::kShare, gpu_bind, masks).gpus[1].variables;
}

TEST(BindNode, NoneSetsNothing) {
  const NodeBinding binding = bound(two_sockets(), 2, BindTo::kShare, GpuBind::kNone, {});
  EXPECT_EQ(binding.visible_gpus, 0);
  EXPECT_FALSE(binding.gpus[0].index);
  EXPECT_TRUE(binding.gpus[0].variables.empty());
}

TEST(BindNode, WhoIsNotBoundTakesGpusInTheirOrder) {
  EXPECT_EQ(bound(two_sockets(), 2, BindTo::kNone, GpuBind::kOrder, {}).gpus[0].variables,
            (Variables{{"CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b"}}));
}

TEST(BindNode, NumaNumberWhereNoCpusAreKnown) {
  NodeShape node = two_sockets();
  for (GpuShape& gpu : node.gpus) gpu.cpus.clear();
  EXPECT_EQ(variables(node, GpuBind::kOne), (Variables{{"CUDA_VISIBLE_DEVICES", "GPU-a"}}));
}

TEST(BindNode, IndicesComeWithTheOrderThatTheyMean) {
  NodeShape node = two_sockets();
  node.gpus[1].uuid.clear();
  EXPECT_EQ(variables(node, GpuBind::kOrder),
            (Variables{{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}, {"CUDA_VISIBLE_DEVICES", "1,0"}}));
}

// The last rank's variables, "A=1 B=2".
std::string last_of(const NodeShape& node, int ranks, const Pinning& pinning, const GpuMasks& masks) {
  const auto binding = bind_node(node, ranks, pinning, masks);
  if (!binding.ok()) return binding.status().message();
  std::vector<std::string> words;
  for (const auto& [name, value] : binding->gpus.back().variables) words.push_back(fmt::format("{}={}", name, value));
  return base::join(words, " ");
}

TEST(BindNode, AmdByRocr) {
  NodeShape node = two_sockets();
  for (GpuShape& gpu : node.gpus) gpu.vendor = GpuVendor::kAmd;
  EXPECT_EQ(variables(node, GpuBind::kOrder), (Variables{{"ROCR_VISIBLE_DEVICES", "GPU-b,GPU-a"}}));
  EXPECT_EQ(variables(node, GpuBind::kOne, {.rocr = "1"}), (Variables{{"ROCR_VISIBLE_DEVICES", "GPU-b"}}));
  node.gpus[0].vendor = GpuVendor::kNvidia;
  EXPECT_EQ(variables(node, GpuBind::kOrder), (Variables{{"CUDA_VISIBLE_DEVICES", "GPU-a"}}));
}

TEST(BindNode, TheJobsMaskGoesBeforeTheLogins) {
  NodeShape node = two_sockets();
  node.gpu_masks.cuda = "0";
  EXPECT_EQ(variables(node, GpuBind::kOrder), (Variables{{"CUDA_VISIBLE_DEVICES", "GPU-a"}}));
  EXPECT_EQ(variables(node, GpuBind::kOrder, {.cuda = "1"}), (Variables{{"CUDA_VISIBLE_DEVICES", "GPU-b"}}));
  EXPECT_TRUE(variables(node, GpuBind::kOrder, {.cuda = ""}).empty());  // none: the variable stays as it is
}

// What a mask within ROCr's has left is dealt, and then lets all through.
TEST(BindNode, AmdMasksThatCountWithinRocrs) {
  NodeShape node;
  for (int i = 0; i < 4; ++i)
    node.gpus.push_back({.vendor = GpuVendor::kAmd, .index = i, .uuid = fmt::format("G{}", i)});
  const Pinning one{.gpu_bind = GpuBind::kOne};
  const Pinning order;
  EXPECT_EQ(last_of(node, 4, one, {.cuda = "0,1,2,3", .rocr = "0,1,2,3"}),
            "ROCR_VISIBLE_DEVICES=G3 CUDA_VISIBLE_DEVICES=0");
  EXPECT_EQ(last_of(node, 2, one, {.hip = "0,1"}), "ROCR_VISIBLE_DEVICES=G1 HIP_VISIBLE_DEVICES=0");
  EXPECT_EQ(last_of(node, 2, order, {.hip = "0,1"}), "ROCR_VISIBLE_DEVICES=G0,G1 HIP_VISIBLE_DEVICES=0,1");
  EXPECT_EQ(last_of(node, 2, order, {.rocr = "3,2,1", .hip = "2,0"}),
            "ROCR_VISIBLE_DEVICES=G1,G3 HIP_VISIBLE_DEVICES=0,1");
  EXPECT_EQ(last_of(node, 1, {.gpu_bind = GpuBind::kOne, .gpus_per_rank = 2}, {.cuda = "3", .hip = "1,2,3"}),
            "ROCR_VISIBLE_DEVICES=G1,G2 HIP_VISIBLE_DEVICES=0,1 CUDA_VISIBLE_DEVICES=0,1");
  node.gpu_masks = {.rocr = "2,3", .ordinal = "2,3"};  // Slurm says both
  EXPECT_EQ(last_of(node, 2, one, {}), "ROCR_VISIBLE_DEVICES=G3 GPU_DEVICE_ORDINAL=0");
  EXPECT_EQ(last_of(node, 2, one, {.cuda = "2,3"}),
            "--gpu-bind one: CUDA_VISIBLE_DEVICES is '2,3', which leaves none of the 2 that ROCR_VISIBLE_DEVICES does "
            "(--gpu-bind none if the ranks need none)");
}

// Parts of AMD's GPUs may all have the GPU's UUID: ROCr would take the first one for each of them.
TEST(BindNode, AUuidThatSeveralHaveNamesNone) {
  NodeShape node;
  for (int i = 0; i < 4; ++i) {
    node.gpus.push_back({.vendor = GpuVendor::kAmd, .index = i, .uuid = fmt::format("GPU-{}", i / 2)});
  }
  EXPECT_EQ(last_of(node, 4, {.gpu_bind = GpuBind::kOne}, {}), "ROCR_VISIBLE_DEVICES=3");
  EXPECT_EQ(last_of(node, 4, {}, {}), "ROCR_VISIBLE_DEVICES=0,1,2,3");
  node.gpus.pop_back();
  EXPECT_EQ(last_of(node, 1, {.gpu_bind = GpuBind::kOne}, {.rocr = "GPU-1"}), "ROCR_VISIBLE_DEVICES=GPU-1");
  EXPECT_EQ(last_of(node, 1, {.gpu_bind = GpuBind::kOne}, {.rocr = "GPU-0"}),
            "--gpu-bind one: ROCR_VISIBLE_DEVICES is 'GPU-0', which leaves none of its 3 GPUs (--gpu-bind none if the "
            "ranks need none)");
}

// CUDA counts GPUs that differ by speed, and we do not know it.
TEST(BindNode, NumbersOfCudasOwnAreDealtAsTheyStand) {
  NodeShape node = two_sockets();
  node.gpus[0].model = "A100";
  node.gpus[1].model = "T4";
  EXPECT_EQ(last_of(node, 2, {}, {}), "CUDA_VISIBLE_DEVICES=GPU-b,GPU-a");
  EXPECT_EQ(last_of(node, 2, {}, {.cuda = "1,0"}), "CUDA_VISIBLE_DEVICES=1,0");
  EXPECT_EQ(last_of(node, 2, {.gpu_bind = GpuBind::kOne}, {.cuda = "1,0"}), "CUDA_VISIBLE_DEVICES=0");
  EXPECT_EQ(last_of(node, 2, {}, {.cuda = "1,0", .cuda_order = "FASTEST_FIRST"}), "CUDA_VISIBLE_DEVICES=1,0");
  EXPECT_EQ(last_of(node, 2, {}, {.cuda = "1,0", .cuda_order = "PCI_BUS_ID"}), "CUDA_VISIBLE_DEVICES=GPU-b,GPU-a");
  EXPECT_EQ(last_of(node, 2, {}, {.cuda = "GPU-b"}), "CUDA_VISIBLE_DEVICES=GPU-b");
  const auto binding = bind_node(node, 2, {}, {.cuda = "1,0"});
  ASSERT_TRUE(binding.ok());
  EXPECT_FALSE(binding->gpus[0].index);
  EXPECT_TRUE(binding->remark.starts_with("CUDA_VISIBLE_DEVICES is '1,0', and its GPUs differ:")) << binding->remark;
  EXPECT_EQ(bind_node(node, 2, {}, {.cuda = "1,0", .cuda_order = "PCI_BUS_ID"})->remark, "");
  EXPECT_EQ(last_of(node, 1, {.gpu_order = GpuOrder::kList, .gpu_list = {0}}, {.cuda = "1,0"}),
            "--gpu-order names GPU 0, but ranks may use none by number");
  for (GpuShape& gpu : node.gpus) gpu.uuid.clear();
  EXPECT_EQ(last_of(node, 2, {}, {.cuda = "1,0"}), "CUDA_VISIBLE_DEVICES=1,0");
  EXPECT_EQ(last_of(node, 2, {}, {}), "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1,0");
  node.gpu_masks = {.cuda = "1", .cuda_order = "PCI_BUS_ID"};
  EXPECT_EQ(last_of(node, 1, {}, {}), "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1");
}

TEST(BindNode, AMaskThatLeavesNoneIsSaid) {
  const NodeShape node = two_sockets();
  const Pinning one{.gpu_bind = GpuBind::kOne};
  for (const char* mask : {"all", "GPU-zz", "0,0", "7", ""}) {
    EXPECT_EQ(last_of(node, 1, one, {.cuda = mask}),
              fmt::format("--gpu-bind one: CUDA_VISIBLE_DEVICES is '{}', which leaves none of its 2 GPUs (--gpu-bind "
                          "none if the ranks need none)",
                          mask));
    EXPECT_EQ(last_of(node, 1, {.gpus_per_rank = 1}, {.cuda = mask}),
              fmt::format("--gpus-per-rank 1: CUDA_VISIBLE_DEVICES is '{}', which leaves none of its 2 GPUs "
                          "(--gpu-bind none if the ranks need none)",
                          mask));
    // Nobody has asked for GPUs: a line, unless that is what the mask says.
    const auto order = bind_node(node, 1, {}, {.cuda = mask});
    ASSERT_TRUE(order.ok()) << order.status();
    EXPECT_TRUE(order->gpus[0].variables.empty());
    EXPECT_EQ(order->remark, *mask == '\0' ? ""
                                           : fmt::format("CUDA_VISIBLE_DEVICES is '{}', which leaves none of its 2 "
                                                         "GPUs: no rank gets a GPU (--gpu-bind none if the ranks "
                                                         "need none)",
                                                         mask));
    EXPECT_EQ(last_of(node, 1, {.gpu_bind = GpuBind::kNone}, {.cuda = mask}), "");
  }
  EXPECT_EQ(last_of({}, 1, one, {.cuda = "all"}), "");  // a host without GPUs has none to leave
}

TEST(BindNode, PartsOfAGpuOneByOne) {
  const GpuMasks masks{.cuda = "MIG-1,MIG-2"};
  const NodeBinding one = bound(two_sockets(), 2, BindTo::kShare, GpuBind::kOne, masks);
  EXPECT_EQ(one.gpus[1].variables, (Variables{{"CUDA_VISIBLE_DEVICES", "MIG-2"}}));
  EXPECT_FALSE(one.gpus[1].index);
  // CUDA sees one of them at a time.
  EXPECT_EQ(variables(two_sockets(), GpuBind::kOrder, masks), (Variables{{"CUDA_VISIBLE_DEVICES", "MIG-2"}}));
}

// Sockets of four cores and two GPUs each.
NodeShape four_gpus() {
  NodeShape node;
  for (int cpu = 0; cpu < 8; ++cpu) node.cores.push_back({cpu / 4, cpu / 4, {cpu}});
  for (int i = 0; i < 4; ++i) {
    GpuShape& gpu = node.gpus.emplace_back();
    gpu.index = i;
    gpu.uuid = fmt::format("G{}", i);
    gpu.numa = i / 2;
    gpu.cpus = i < 2 ? std::vector{0, 1, 2, 3} : std::vector{4, 5, 6, 7};
  }
  return node;
}

NodeShape divided() {
  NodeShape node = four_gpus();
  node.gpus[0].is_divided = true;
  node.gpus[0].parts = {{.uuid = "MIG-0a"}, {.uuid = "MIG-0b"}};
  node.gpus[1].is_divided = true;  // into nothing
  node.gpus[2].is_divided = true;
  node.gpus[2].parts = {{.uuid = "MIG-2a"}};
  node.gpus.pop_back();
  return node;
}

// "0,1 G0,G1 | 2,3 G2,G3": of each rank its own GPUs and what it sees; or the error.
std::string dealt(const NodeShape& node, int ranks, const Pinning& pinning, const GpuMasks& masks = {}) {
  const auto binding = bind_node(node, ranks, pinning, masks);
  if (!binding.ok()) return binding.status().message();
  std::vector<std::string> words;
  for (const RankGpus& gpus : binding->gpus) {
    std::vector<std::string> own;
    for (const int index : gpus.indices) own.push_back(std::to_string(index));
    EXPECT_EQ(gpus.index, gpus.indices.empty() ? std::nullopt : std::optional(gpus.indices.front()));
    words.push_back(base::join(own, ",") + " " + (gpus.variables.empty() ? "-" : gpus.variables.back().second));
  }
  return base::join(words, " | ");
}

struct Dealt {
  int ranks;
  Pinning pinning;
  std::string expected;
};

TEST(GpusPerRank, TableOfAHostWithFour) {
  constexpr auto kOrder = GpuBind::kOrder;
  constexpr auto kOne = GpuBind::kOne;
  const Dealt table[] = {
      {2, {.gpu_bind = kOrder, .gpus_per_rank = 2}, "0,1 G0,G2,G1,G3 | 2,3 G0,G2,G1,G3"},
      {2, {.gpu_bind = kOne, .gpus_per_rank = 2}, "0,1 G0,G1 | 2,3 G2,G3"},
      {1, {.gpu_bind = kOne, .gpus_per_rank = 4}, "0,1,2,3 G0,G1,G2,G3"},
      {1, {.gpu_bind = kOne, .gpus_per_rank = 3}, "0,1,2 G0,G1,G2"},
      {1, {.gpu_bind = kOrder, .gpus_per_rank = 3}, "0,1,2 G0,G1,G2,G3"},
      {3,
       {.gpu_bind = kOrder, .gpus_per_rank = 2, .share_gpu = true},
       "0,1 G0,G2,G1,G3 | 2,3 G0,G2,G1,G3 | 0,1 G0,G2,G1,G3"},
      // What is too little for one of them is not taken by number.
      {2, {.gpu_bind = kOrder, .gpus_per_rank = 3, .share_gpu = true}, "0,1,2 G0,G1,G2 | 0,1,2 G0,G1,G2"},
      {4, {.gpu_bind = kOne, .gpus_per_rank = 1}, "0 G0 | 1 G1 | 2 G2 | 3 G3"},
      {2, {.gpu_bind = kOne, .gpu_order = GpuOrder::kReverse, .gpus_per_rank = 2}, "3,2 G3,G2 | 1,0 G1,G0"},
      {1, {.gpu_bind = kOne, .gpu_order = GpuOrder::kList, .gpu_list = {1, 3}, .gpus_per_rank = 2}, "1,3 G1,G3"},
      {2, {.gpu_bind = GpuBind::kNone, .gpus_per_rank = 2}, " - |  -"},
      // Too few.
      {1, {.gpus_per_rank = 5}, "--gpus-per-rank 5: ranks may use only 4 GPUs on that host"},
      {3,
       {.gpus_per_rank = 2},
       "3 ranks need 2 GPUs each, but ranks may use 4 GPUs: use fewer ranks, --share-gpu if several may share one, or "
       "--gpu-bind none"},
      {5,
       {.gpu_bind = kOne},
       "5 ranks need 1 GPU each, but ranks may use 4 GPUs: use fewer ranks, --share-gpu if several may share one, or "
       "--gpu-bind none"},
      {5,
       {.gpus_per_rank = 1},
       "5 ranks need 1 GPU each, but ranks may use 4 GPUs: use fewer ranks, --share-gpu if several may share one, or "
       "--gpu-bind none"},
      // Shared: local rank i has group i modulo the groups.
      {3, {.gpu_bind = kOne, .gpus_per_rank = 2, .share_gpu = true}, "0,1 G0,G1 | 2,3 G2,G3 | 0,1 G0,G1"},
      {5, {.gpu_bind = kOne, .share_gpu = true}, "0 G0 | 1 G1 | 2 G2 | 3 G3 | 0 G0"},
      {2, {.gpu_bind = kOne, .gpus_per_rank = 3, .share_gpu = true}, "0,1,2 G0,G1,G2 | 0,1,2 G0,G1,G2"},
      // Nobody has asked for GPUs: the ranks may use none.
      {5, {.gpu_bind = kOrder}, "0 G0,G1,G2,G3 | 1 G0,G1,G2,G3 | 2 G0,G1,G2,G3 | 3 G0,G1,G2,G3 | 0 G0,G1,G2,G3"},
  };
  for (const Dealt& row : table) EXPECT_EQ(dealt(four_gpus(), row.ranks, row.pinning), row.expected);
  EXPECT_EQ(dealt(four_gpus(), 2, {.gpu_bind = kOne, .gpus_per_rank = 1}, {.cuda = "2,1"}), "1 G1 | 2 G2");
  EXPECT_EQ(dealt({}, 1, {.gpus_per_rank = 1}),
            "--gpus-per-rank 1: that host shows no GPU that ranks can use; muster doctor shows what it has");
  NodeShape amd = four_gpus();
  for (GpuShape& gpu : amd.gpus) gpu.vendor = GpuVendor::kAmd;
  EXPECT_EQ(dealt(amd, 2, {.gpu_bind = kOne, .gpus_per_rank = 2}), "0,1 G0,G1 | 2,3 G2,G3");
}

TEST(GpusPerRank, EveryGpuIsOneRanksWherePossible) {
  for (int ranks = 1; ranks <= 6; ++ranks) {
    for (int each = 1; each <= 4; ++each) {
      for (const bool share : {false, true}) {
        SCOPED_TRACE(fmt::format("{} ranks, {} GPUs each, shared {}", ranks, each, share));
        const Pinning pinning{.gpu_bind = GpuBind::kOne, .gpus_per_rank = each, .share_gpu = share};
        const auto one = bind_node(four_gpus(), ranks, pinning, {});
        ASSERT_EQ(one.ok(), share || ranks * each <= 4);
        if (!one.ok()) continue;
        std::map<int, int> uses;
        for (const RankGpus& gpus : one->gpus) {
          EXPECT_EQ(gpus.indices.size(), static_cast<std::size_t>(each));
          for (const int index : gpus.indices) ++uses[index];
        }
        if (ranks * each <= 4) {
          for (const auto& [index, count] : uses) EXPECT_EQ(count, 1) << index;
        }
        // Under order all see one list, in which number local_rank is the rank's own, and the same GPUs are its.
        Pinning in_order = pinning;
        in_order.gpu_bind = GpuBind::kOrder;
        const auto order = bind_node(four_gpus(), ranks, in_order, {});
        ASSERT_TRUE(order.ok()) << order.status();
        const int groups = 4 / each;
        for (int rank = 0; rank < ranks; ++rank) {
          const auto list = base::split(order->gpus[static_cast<std::size_t>(rank)].variables[0].second, ',');
          const auto own = base::split(one->gpus[static_cast<std::size_t>(rank)].variables[0].second, ',');
          EXPECT_EQ(order->gpus[static_cast<std::size_t>(rank)].variables, order->gpus[0].variables);
          const std::string_view taken = list[static_cast<std::size_t>(rank) % list.size()];
          EXPECT_NE(std::ranges::find(own, taken), own.end()) << taken;
          for (std::size_t i = 0; i < own.size(); ++i) {
            EXPECT_EQ(list.at(static_cast<std::size_t>(rank % groups) +
                              i * static_cast<std::size_t>(std::min(ranks, groups))),
                      own[i]);
          }
        }
      }
    }
  }
}

TEST(DividedGpus, TheirPartsAreTheDevices) {
  EXPECT_EQ(dealt(divided(), 3, {}), "0 MIG-0a | 0 MIG-0b | 2 MIG-2a");
  EXPECT_EQ(dealt(divided(), 3, {.gpu_bind = GpuBind::kOne}), "0 MIG-0a | 0 MIG-0b | 2 MIG-2a");
  EXPECT_EQ(dealt(divided(), 4, {}), "0 MIG-0a | 2 MIG-2a | 0 MIG-0b | 0 MIG-0a");
  EXPECT_EQ(dealt(divided(), 1, {}, {.cuda = "MIG-2a"}), "2 MIG-2a");
  EXPECT_EQ(dealt(divided(), 1, {}, {.cuda = "2"}), "2 MIG-2a");
  EXPECT_EQ(dealt(divided(), 2, {}, {.cuda = "0,1"}), "0 MIG-0a | 0 MIG-0b");
  EXPECT_EQ(dealt(divided(), 2, {.gpus_per_rank = 2}),
            "--gpus-per-rank 2: a GPU there is divided (MIG), and CUDA shows a process one part of it");
  EXPECT_EQ(dealt(divided(), 3, {.gpu_order = GpuOrder::kRoundRobin}), "0 MIG-0a | 2 MIG-2a | 0 MIG-0b");
  EXPECT_EQ(dealt(divided(), 1, {.gpu_bind = GpuBind::kNone}), " -");
  EXPECT_EQ(count_gpus(divided(), {}), 3);
  EXPECT_EQ(bind_node(divided(), 1, {}, {})->remark, "");
  EXPECT_EQ(bind_node(divided(), 2, {.gpu_bind = GpuBind::kOne}, {})->remark, "");
  EXPECT_NE(bind_node(divided(), 2, {}, {})->remark.find("set_device(local_rank) fails (--gpu-bind one if"),
            std::string::npos);
  NodeShape nothing = divided();
  nothing.gpus = {nothing.gpus[1]};
  EXPECT_EQ(dealt(nothing, 1, {}), " -");
  EXPECT_EQ(dealt(nothing, 1, {.gpu_bind = GpuBind::kOne}),
            "--gpu-bind one: its 1 GPU is divided (MIG), into no parts that can be named (--gpu-bind none if the ranks "
            "need none)");
}

TEST(DividedGpus, WholeOnesBesideThem) {
  NodeShape node = divided();
  node.gpus[1].is_divided = false;
  EXPECT_EQ(dealt(node, 4, {}), "0 MIG-0a | 0 MIG-0b | 2 MIG-2a | 1 G1");
  EXPECT_EQ(dealt(node, 2, {}), "0 MIG-0a | 2 MIG-2a");
  // They are enough.
  EXPECT_EQ(dealt(node, 1, {}), "1 G1");
  EXPECT_EQ(dealt(node, 1, {.gpu_bind = GpuBind::kOne}), "1 G1");
  EXPECT_EQ(dealt(node, 1, {.gpus_per_rank = 1}), "1 G1");
  node.gpus.push_back({.index = 3, .uuid = "G3"});
  EXPECT_EQ(dealt(node, 2, {}), "1 G1,G3 | 3 G1,G3");
  EXPECT_EQ(dealt(node, 1, {.gpus_per_rank = 2}), "1,3 G1,G3");
  EXPECT_EQ(dealt(node, 1, {.gpu_order = GpuOrder::kReverse}), "3 G3,G1");
  // No part can be a second one of a rank.
  EXPECT_EQ(dealt(node, 2, {.gpus_per_rank = 2}),
            "2 ranks need 2 GPUs each, but ranks may use 2 GPUs: use fewer ranks, --share-gpu if several may share "
            "one, or --gpu-bind none");
  EXPECT_EQ(dealt(node, 2, {.gpus_per_rank = 2, .share_gpu = true}), "1,3 G1,G3 | 1,3 G1,G3");
  // The user has said which.
  EXPECT_EQ(dealt(node, 1, {}, {.cuda = "0,2"}), "0 MIG-0a");
  EXPECT_EQ(dealt(node, 2, {.gpu_order = GpuOrder::kList, .gpu_list = {0, 1}}), "0 MIG-0a | 0 MIG-0b");
  node.gpus.pop_back();
  node.gpus[1].uuid.clear();  // an index and a MIG device in one list: no runtime takes that
  EXPECT_EQ(dealt(node, 4, {}), " - |  - |  - |  -");
}

// Ranks of a host that nobody gives slots; -1: bind_node() refuses one, too.
int most(const NodeShape& node, const Pinning& pinning, const GpuMasks& masks = {}) {
  const auto count = most_ranks(node, pinning, masks);
  return count.ok() ? *count : -1;
}

TEST(MostRanks, AsManyAsHaveGpusOfTheirOwn) {
  const NodeShape node = four_gpus();
  EXPECT_EQ(most(node, {}), 4);
  EXPECT_EQ(most({}, {}), 0);
  EXPECT_EQ(most(node, {.gpu_bind = GpuBind::kNone}), 4);
  EXPECT_EQ(most(node, {.gpus_per_rank = 3, .share_gpu = true}), 1);
  EXPECT_EQ(most(node, {.gpus_per_rank = 5}), -1);
  EXPECT_EQ(most(node, {.gpu_bind = GpuBind::kOne, .gpu_order = GpuOrder::kList, .gpu_list = {0, 1}}), 2);
  EXPECT_EQ(most(node, {}, {.cuda = "2"}), 1);
  EXPECT_EQ(most(node, {}, {.cuda = "all"}), 0);
  EXPECT_EQ(most(node, {.gpu_bind = GpuBind::kOne}, {.cuda = "all"}), -1);
  EXPECT_EQ(most(node, {.bind_to = BindTo::kDepth, .depth = 3}), 2);  // 8 cores in two sockets
  NodeShape mixed = four_gpus();
  mixed.gpus.push_back({.vendor = GpuVendor::kAmd, .index = 0, .uuid = "GPU-apu"});
  EXPECT_EQ(most(mixed, {}), 4);
}

TEST(MostRanks, OfWholeGpusAndParts) {
  NodeShape node;
  for (int i = 0; i < 4; ++i) node.gpus.push_back({.index = i, .uuid = fmt::format("G{}", i)});
  node.gpus[3].is_divided = true;
  for (int i = 0; i < 7; ++i) node.gpus[3].parts.push_back({.uuid = fmt::format("MIG-{}", i)});
  EXPECT_EQ(most(node, {}), 10);
  EXPECT_EQ(most(node, {.gpus_per_rank = 2}), 1);
}

TEST(MostRanks, OfIntels) {
  NodeShape node;
  for (int i = 0; i < 2; ++i) node.gpus.push_back({.vendor = GpuVendor::kIntel, .index = i, .tiles = 2});
  EXPECT_EQ(most(node, {.gpu_bind = GpuBind::kOne}), 2);
  EXPECT_EQ(most(node, {.gpu_bind = GpuBind::kTile}), 4);
  EXPECT_EQ(most(node, {.gpu_bind = GpuBind::kTile, .gpus_per_rank = 2}), 2);
  EXPECT_EQ(most(node, {.gpu_bind = GpuBind::kTile}, {.ze = "1"}), 1);
  EXPECT_EQ(most(node, {}), 2);  // ranks use them, though nothing is set
  EXPECT_EQ(most(node, {.gpus_per_rank = 1}), -1);
  EXPECT_EQ(most({}, {.gpu_bind = GpuBind::kTile, .gpus = 3, .tiles = 2}), 6);
  EXPECT_EQ(most(node, {.gpu_bind = GpuBind::kTile}, {.ze = "x"}), -1);
}

TEST(MostRanks, BindNodeTakesThatManyOnAnyMachine) {
  constexpr unsigned kSeed = 20260102;
  std::mt19937 random(kSeed);
  const auto pick = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); };
  const std::optional<std::string> masks[] = {{}, {},       "0,1", "0,1,2,3,4,5,6,7", "3,1,0", "all",
                                              "", "GPU-0.", "1,1", "MIG-0a,0",        "9"};
  int counted = 0;
  for (int round = 0; round < 3000; ++round) {
    Machine machine = random_machine(random);
    const auto vendor = static_cast<GpuVendor>(pick(0, 2));
    for (GpuShape& gpu : machine.node.gpus) {
      gpu.vendor = vendor;
      gpu.tiles = pick(1, 2);
      gpu.model = pick(0, 9) == 0 ? "other" : "";
      if (pick(0, 15) == 0) gpu.uuid.clear();
      if (vendor != GpuVendor::kNvidia || pick(0, 5) > 0) continue;
      gpu.is_divided = true;
      for (int part = pick(0, 7); part > 0; --part) {
        gpu.parts.push_back({.uuid = fmt::format("MIG-{}{}", gpu.index, static_cast<char>('a' + part))});
      }
    }
    Pinning pinning;
    pinning.gpu_bind = static_cast<GpuBind>(pick(0, 3));
    pinning.gpu_order = static_cast<GpuOrder>(pick(0, 3));
    if (pinning.gpu_order == GpuOrder::kList) pinning.gpu_list = {pick(0, 3), 4 + pick(0, 3)};
    pinning.gpus_per_rank = std::max(0, pick(-3, 4));
    pinning.share_gpu = pick(0, 3) == 0;
    pinning.bind_to = pick(0, 4) == 0 ? BindTo::kDepth : BindTo::kShare;
    pinning.depth = pick(1, 4);
    const auto mask = [&] { return masks[static_cast<std::size_t>(pick(0, static_cast<int>(std::size(masks)) - 1))]; };
    GpuMasks job;
    if (pick(0, 1) == 0) job.cuda = mask();
    if (vendor != GpuVendor::kNvidia) job.rocr = mask();
    if (vendor == GpuVendor::kIntel) job.ze = mask();
    SCOPED_TRACE(fmt::format("seed {} round {}: {}", kSeed, round, machine.text));
    const auto ranks = most_ranks(machine.node, pinning, job);
    if (!ranks.ok()) {
      EXPECT_EQ(bind_node(machine.node, 1, pinning, job).status().message(), ranks.status().message());
      continue;
    }
    counted += *ranks > 0 ? 1 : 0;
    for (int fewer = 1; fewer <= *ranks; ++fewer) {
      const auto binding = bind_node(machine.node, fewer, pinning, job);
      EXPECT_TRUE(binding.ok()) << fewer << " of " << *ranks << ": " << binding.status();
    }
    // Each has its own.
    if (pinning.gpu_bind != GpuBind::kOne || *ranks == 0) continue;
    std::set<Variables> seen;
    const auto binding = bind_node(machine.node, *ranks, pinning, job);
    for (const RankGpus& gpus : binding->gpus) seen.insert(gpus.variables);
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(*ranks));
  }
  EXPECT_GT(counted, 500);
}

}  // namespace
}  // namespace muster::model::gpu_binding_test
