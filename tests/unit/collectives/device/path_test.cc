#include "collectives/device/path.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace muster::collectives::device::path_test {
namespace {

Facts rank_on(char gpu) {
  Facts facts;
  facts.uuid.bytes[0] = gpu;
  facts.nccl_version = 22809;
  facts.has_kernels = facts.reaches_all = facts.is_ready = 1;
  return facts;
}
std::vector<Facts> with(std::vector<Facts> ranks, const std::function<void(Facts&)>& change) {
  change(ranks.back());
  return ranks;
}
const std::vector<Facts> kOwnGpus{rank_on('a'), rank_on('b')};
const std::vector<Facts> kOneGpu{rank_on('a'), rank_on('a')};

TEST(DevicePath, IsTheFastestThatAllRanksCanTake) {
  EXPECT_EQ(choose_path(kOwnGpus, 1)->path, Path::kNccl);
  EXPECT_EQ(choose_path(kOwnGpus, 2)->path, Path::kNccl);
  EXPECT_EQ(choose_path(kOneGpu, 1)->path, Path::kIpc);
  EXPECT_EQ(choose_path(kOneGpu, 2)->path, Path::kStaged);
  EXPECT_EQ(choose_path(with(kOwnGpus, [](Facts& rank) { rank.nccl_version = 0; }), 1)->path, Path::kIpc);
  EXPECT_EQ(choose_path(with(kOwnGpus, [](Facts& rank) { rank.nccl_version = 22900; }), 1)->path, Path::kIpc);
  EXPECT_EQ(choose_path(with(kOneGpu, [](Facts& rank) { rank.has_kernels = 0; }), 1)->path, Path::kStaged);
  EXPECT_EQ(choose_path(kOneGpu, 1, "rank 1: no")->path, Path::kStaged);
  EXPECT_EQ(choose_path(with(kOneGpu, [](Facts& rank) { rank.reaches_all = 0; }), 1)->path, Path::kStaged);
  EXPECT_EQ(choose_path(std::vector<Facts>(33, rank_on('a')), 1)->path, Path::kStaged);
  EXPECT_EQ(choose_path(std::vector<Facts>{rank_on('a')}, 1)->path, Path::kNccl);
}

std::vector<Facts> forced(std::vector<Facts> ranks, Path path) {
  for (Facts& rank : ranks) rank.forced = static_cast<std::int32_t>(path);
  return ranks;
}

TEST(DevicePath, CanBeNamedWhereItCanBeTaken) {
  EXPECT_EQ(choose_path(forced(kOwnGpus, Path::kIpc), 1)->path, Path::kIpc);
  EXPECT_EQ(choose_path(forced(kOwnGpus, Path::kStaged), 2)->path, Path::kStaged);
  const auto refused = choose_path(forced(kOneGpu, Path::kNccl), 1);
  EXPECT_EQ(refused.status().code(), base::Code::kFailedPrecondition);
  EXPECT_EQ(refused.status().message(), "MUSTER_DEVICE_PATH=nccl: ranks share a GPU");
  EXPECT_EQ(choose_path(forced(kOneGpu, Path::kIpc), 2).status().message(),
            "MUSTER_DEVICE_PATH=ipc: the ranks are on several hosts");
  const auto differing = choose_path(with(kOneGpu, [](Facts& rank) { rank.forced = 2; }), 1);
  EXPECT_EQ(differing.status().message(), "is MUSTER_DEVICE_PATH the same for all ranks?");
}

TEST(DevicePath, NamesWhyNoFasterPathIsPossible) {
  EXPECT_EQ(choose_path(kOwnGpus, 1)->why, "");
  EXPECT_EQ(choose_path(kOneGpu, 1)->why, "not nccl: ranks share a GPU");
  EXPECT_EQ(choose_path(kOneGpu, 2)->why, "not nccl: ranks share a GPU; not ipc: the ranks are on several hosts");
  EXPECT_EQ(choose_path(kOneGpu, 1, "rank 1: no")->why, "not nccl: ranks share a GPU; not ipc: rank 1: no");
  EXPECT_EQ(choose_path(kOwnGpus, 1, "rank 1: no")->path, Path::kNccl);
  EXPECT_EQ(choose_path(forced(kOneGpu, Path::kStaged), 1)->why, "");
  EXPECT_EQ(choose_path(forced(kOneGpu, Path::kIpc), 1, "rank 1: no").status().message(),
            "MUSTER_DEVICE_PATH=ipc: rank 1: no");
}

TEST(DevicePath, NamesAreReadAndWritten) {
  for (const Path path : {Path::kNccl, Path::kIpc, Path::kStaged}) EXPECT_EQ(**parse_path(name_of(path)), path);
  EXPECT_FALSE(parse_path("auto")->has_value());
  EXPECT_FALSE(parse_path("")->has_value());
  EXPECT_EQ(parse_path("gdr").status().code(), base::Code::kInvalidArgument);
}

}  // namespace
}  // namespace muster::collectives::device::path_test
