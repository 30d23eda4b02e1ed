#include "model/joining_binding.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"

namespace muster::model::joining_binding_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Eight cores, and four GPUs that are near all of them.
NodeShape node() {
  NodeShape node;
  for (int cpu = 0; cpu < 8; ++cpu) node.cores.push_back({.cpus = {cpu}});
  for (int i = 0; i < 4; ++i) {
    GpuShape& gpu = node.gpus.emplace_back();
    gpu.index = i;
    gpu.uuid = fmt::format("GPU-{}", i);
    gpu.memory_mib = 1000;
  }
  return node;
}

NodeBinding joined(std::size_t ranks, const std::vector<BoundRank>& running, const Pinning& pinning = {},
                   const HostShare* share = nullptr) {
  const std::vector<RankRequest> requests(ranks);
  auto binding = bind_joining(node(), requests, running, pinning, {}, share);
  EXPECT_TRUE(binding.ok()) << binding.status();
  return binding.ok() ? *std::move(binding) : NodeBinding();
}

std::string seen(const NodeBinding& binding, std::size_t rank) {
  std::vector<std::string> texts;
  for (const auto& [name, value] : binding.gpus[rank].variables) texts.push_back(name + "=" + value);
  return base::join(texts, " ");
}

// The job had the upper half of the host for two ranks. Then it got the lower half, too.
TEST(JoiningBinding, RanksThatJoinLeaveTheOthersTheirCoresAndGpus) {
  const HostShare share{.cpus = {0, 1, 2, 3, 4, 5, 6, 7}, .devices = {"GPU-2", "GPU-3", "GPU-0", "GPU-1"}};
  const std::vector<BoundRank> running = {
      {.rank = 0, .local_rank = 0, .cpus = {4, 5}, .gpus = {2}, .devices = {"GPU-2"}},
      {.rank = 1, .local_rank = 1, .cpus = {6, 7}, .gpus = {3}, .devices = {"GPU-3"}},
  };
  const NodeBinding binding = joined(4, running, {.gpu_bind = GpuBind::kOne}, &share);
  EXPECT_THAT(binding.cores[0].cpus, ElementsAre(4, 5));
  EXPECT_THAT(binding.gpus[1].devices, ElementsAre("GPU-3"));
  EXPECT_THAT(binding.cores[2].cpus, ElementsAre(0, 1));
  EXPECT_THAT(binding.cores[3].cpus, ElementsAre(2, 3));
  EXPECT_THAT(binding.gpus[2].devices, ElementsAre("GPU-0"));
  EXPECT_EQ(seen(binding, 3), "CUDA_VISIBLE_DEVICES=GPU-1");
}

TEST(JoiningBinding, WithOrderEntryIIsTheGpuOfLocalRankI) {
  const HostShare share{.cpus = {0, 1, 2, 3}, .devices = {"GPU-1", "GPU-0", "GPU-2"}};
  const std::vector<BoundRank> running = {
      {.rank = 0, .local_rank = 0, .cpus = {2, 3}, .gpus = {1}, .devices = {"GPU-1"}}};
  const NodeBinding binding = joined(3, running, {}, &share);
  EXPECT_EQ(seen(binding, 1), "CUDA_VISIBLE_DEVICES=GPU-1,GPU-0,GPU-2");
  EXPECT_EQ(seen(binding, 2), seen(binding, 1));
  EXPECT_THAT(binding.gpus[1].devices, ElementsAre("GPU-0"));
  EXPECT_THAT(binding.gpus[2].devices, ElementsAre("GPU-2"));
}

TEST(JoiningBinding, ARankThatLeavesKeepsItsGpuUntilItsEnd) {
  const std::vector<BoundRank> running = {
      {.rank = 0, .local_rank = 0, .cpus = {0}, .gpus = {0}, .devices = {"GPU-0"}},
      {.rank = -1, .local_rank = -1, .cpus = {1, 2, 3, 4, 5}, .gpus = {1}, .devices = {"GPU-1"}},
  };
  const NodeBinding binding = joined(2, running, {.gpu_bind = GpuBind::kOne});
  EXPECT_THAT(binding.gpus[1].devices, ElementsAre("GPU-2"));
  EXPECT_THAT(binding.cores[1].cpus, ElementsAre(6, 7));
}

// One rank had the whole host.
TEST(JoiningBinding, RanksShareWhatIsNotEnough) {
  const std::vector<BoundRank> running = {{.rank = 0,
                                           .local_rank = 0,
                                           .cpus = {0, 1, 2, 3, 4, 5, 6, 7},
                                           .gpus = {0, 1, 2, 3},
                                           .devices = {"GPU-0", "GPU-1", "GPU-2", "GPU-3"}}};
  const NodeBinding binding = joined(2, running, {.gpu_bind = GpuBind::kOne});
  EXPECT_THAT(binding.cores[1].cpus, ElementsAre(4, 5, 6, 7)) << "its part if both started now";
  EXPECT_EQ(binding.gpus[1].devices.size(), 1U);
}

TEST(JoiningBinding, WithoutConflictItIsTheBindingOfAllRanks) {
  const std::vector<BoundRank> running = {{.rank = 0, .local_rank = 0}};
  const NodeBinding binding = joined(2, running, {.bind_to = BindTo::kNone, .gpu_bind = GpuBind::kNone});
  EXPECT_THAT(binding.cores[1].cpus, IsEmpty());
  EXPECT_THAT(seen(binding, 1), IsEmpty());
}

}  // namespace
}  // namespace muster::model::joining_binding_test
