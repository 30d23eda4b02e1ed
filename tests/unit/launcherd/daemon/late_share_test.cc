#include "launcherd/daemon/late_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/host_binding.h"

namespace muster::launcherd {
namespace {

using ::testing::ElementsAre;

// Of as many cores as GPUs.
model::NodeShape host_of(const std::vector<std::string>& uuids) {
  model::NodeShape node;
  for (int i = 0; i < static_cast<int>(uuids.size()); ++i) {
    node.cores.push_back({.cpus = {i}});
    model::GpuShape gpu;
    gpu.index = i;
    gpu.uuid = uuids[static_cast<std::size_t>(i)];
    gpu.vendor = model::GpuVendor::kNvidia;
    node.gpus.push_back(gpu);
  }
  return node;
}

const std::vector<const model::RankPlace*> kTwoRanks{nullptr, nullptr};

TEST(LateShare, RanksThatRunAreCountedWithWhatTheyHave) {
  const auto share = share_that_runs({}, host_of({"GPU-0", "GPU-1", "GPU-2", "GPU-3"}), 4, kTwoRanks);
  ASSERT_TRUE(share);
  EXPECT_THAT(share->devices, ElementsAre("GPU-0", "GPU-1"));
  EXPECT_THAT(share->cpus, ElementsAre(0, 1, 2, 3)) << "they were bound to all of the host";
  EXPECT_FALSE(share->is_open);
}

TEST(LateShare, RanksThatShareGpusLeaveThemOpen) {
  const auto share = share_that_runs({}, host_of({"GPU-0"}), 4, kTwoRanks);
  ASSERT_TRUE(share);
  EXPECT_THAT(share->devices, ElementsAre("GPU-0"));
  EXPECT_TRUE(share->is_open);
}

TEST(LateShare, WhatCannotBeBoundAnyMoreIsNotCounted) {
  ShareWish wish;
  wish.pinning.gpu_bind = model::GpuBind::kOne;
  wish.pinning.gpus_per_rank = 2;
  EXPECT_FALSE(share_that_runs(wish, host_of({"GPU-0"}), 4, kTwoRanks));
}

TEST(LateShare, IsThereAsLongAsAllOfItsDevicesAre) {
  const model::HostShare share{.cpus = {0, 1}, .devices = {"GPU-0", "GPU-1"}};
  EXPECT_TRUE(is_there_still(share, {}, host_of({"GPU-0", "GPU-1"}), kTwoRanks));
  EXPECT_TRUE(is_there_still(share, {}, host_of({"GPU-1", "GPU-x", "GPU-0"}), kTwoRanks));
  EXPECT_FALSE(is_there_still(share, {}, host_of({"GPU-0", "GPU-x"}), kTwoRanks));
  EXPECT_FALSE(is_there_still(share, {}, host_of({"GPU-x", "GPU-y"}), kTwoRanks));
}

TEST(LateShare, OfAHostThatHadNoGpusIsNotThereWhenItHasSome) {
  const model::HostShare share{.cpus = {0, 1}};
  EXPECT_TRUE(is_there_still(share, {}, host_of({}), kTwoRanks));
  EXPECT_FALSE(is_there_still(share, {}, host_of({"GPU-0", "GPU-1"}), kTwoRanks));
  ShareWish none;
  none.pinning.gpu_bind = model::GpuBind::kNone;
  EXPECT_TRUE(is_there_still(share, none, host_of({"GPU-0", "GPU-1"}), kTwoRanks));
}

}  // namespace
}  // namespace muster::launcherd
