// Tables of whole machines: tests/unit/agent/service/golden. Here: what holds for every machine.
#include "model/gpu_binding.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/strings.h"

namespace muster::model {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

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
    const auto order = bind_node(node, ranks, BindTo::kShare, GpuBind::kOrder, {});
    const auto one = bind_node(node, ranks, BindTo::kShare, GpuBind::kOne, {});
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
  return bind_node(node, 2, BindTo::kShare, gpu_bind, masks).gpus[1].variables;
}

TEST(BindNode, NoneSetsNothing) {
  const NodeBinding binding = bind_node(two_sockets(), 2, BindTo::kShare, GpuBind::kNone, {});
  EXPECT_EQ(binding.visible_gpus, 0);
  EXPECT_FALSE(binding.gpus[0].index);
  EXPECT_TRUE(binding.gpus[0].variables.empty());
}

TEST(BindNode, WhoIsNotBoundTakesGpusInTheirOrder) {
  EXPECT_EQ(bind_node(two_sockets(), 2, BindTo::kNone, GpuBind::kOrder, {}).gpus[0].variables,
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

TEST(BindNode, AmdByRocrUnlessHipHasAMask) {
  NodeShape node = two_sockets();
  for (GpuShape& gpu : node.gpus) gpu.vendor = GpuVendor::kAmd;
  EXPECT_EQ(variables(node, GpuBind::kOrder), (Variables{{"ROCR_VISIBLE_DEVICES", "GPU-b,GPU-a"}}));
  EXPECT_EQ(variables(node, GpuBind::kOne, {.rocr = "1"}), (Variables{{"ROCR_VISIBLE_DEVICES", "GPU-b"}}));
  EXPECT_TRUE(variables(node, GpuBind::kOrder, {.hip = "0"}).empty());
  EXPECT_TRUE(variables(node, GpuBind::kOrder, {.cuda = "0"}).empty());  // HIP reads it, too
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

TEST(BindNode, PartsOfAGpuOneByOne) {
  const GpuMasks masks{.cuda = "MIG-1,MIG-2"};
  const NodeBinding one = bind_node(two_sockets(), 2, BindTo::kShare, GpuBind::kOne, masks);
  EXPECT_EQ(one.gpus[1].variables, (Variables{{"CUDA_VISIBLE_DEVICES", "MIG-2"}}));
  EXPECT_FALSE(one.gpus[1].index);
  EXPECT_TRUE(variables(two_sockets(), GpuBind::kOrder, masks).empty());
}

}  // namespace
}  // namespace muster::model
