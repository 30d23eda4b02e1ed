#include "launcherd/daemon/deferred_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/host_binding.h"

namespace muster::launcherd::deferred_share_test {
namespace {

using ::testing::ElementsAre;

// Returns a host with as many cores as GPUs.
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

const std::vector<model::RankRequest> kTwoRanks(2);

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
  ShareRequest wish;
  wish.pinning.gpu_bind = model::GpuBind::kOne;
  wish.pinning.gpus_per_rank = 2;
  EXPECT_FALSE(share_that_runs(wish, host_of({"GPU-0"}), 4, kTwoRanks));
}

TEST(LateShare, IsThereAsLongAsAllOfItsDevicesAre) {
  const model::HostShare share{.cpus = {0, 1}, .devices = {"GPU-0", "GPU-1"}};
  EXPECT_TRUE(still_exists(share, {}, host_of({"GPU-0", "GPU-1"}), kTwoRanks));
  EXPECT_TRUE(still_exists(share, {}, host_of({"GPU-1", "GPU-x", "GPU-0"}), kTwoRanks));
  EXPECT_FALSE(still_exists(share, {}, host_of({"GPU-0", "GPU-x"}), kTwoRanks));
  EXPECT_FALSE(still_exists(share, {}, host_of({"GPU-x", "GPU-y"}), kTwoRanks));
}

TEST(LateShare, OfAHostThatHadNoGpusIsNotThereWhenItHasSome) {
  const model::HostShare share{.cpus = {0, 1}};
  EXPECT_TRUE(still_exists(share, {}, host_of({}), kTwoRanks));
  EXPECT_FALSE(still_exists(share, {}, host_of({"GPU-0", "GPU-1"}), kTwoRanks));
  ShareRequest none;
  none.pinning.gpu_bind = model::GpuBind::kNone;
  EXPECT_TRUE(still_exists(share, none, host_of({"GPU-0", "GPU-1"}), kTwoRanks));
}

JobNeed need(int np, const model::Pinning& pinning = {}) {
  JobNeed need;
  need.request.np = np;
  need.share.pinning = pinning;
  return need;
}

model::Placement ranks_on(const std::vector<std::string>& hosts) {
  std::vector<model::HostSpec> specs;
  std::vector<std::size_t> host_of_rank;
  for (const std::string& host : hosts) {
    host_of_rank.push_back(specs.size());
    specs.push_back({.name = host});
  }
  return model::place_as_listed(specs, host_of_rank);
}

class SettleShares : public ::testing::Test {
 protected:
  SettleShares() {
    for (const char* const name : {"n1", "n2"}) table_.learn(name, node_, name);
  }
  const HostUse& use(const std::string& name) const { return (*table_.find(name))->use; }

  const model::NodeShape node_ = host_of({"GPU-0", "GPU-1"});
  HostTable table_{{{.name = "n1", .slots = 2}, {.name = "n2", .slots = 2}}};
};

TEST_F(SettleShares, AJobThatWasPlacedWithoutOneHasItsShareOfWhatIsFree) {
  table_.acquire_share("n1", {.cpus = {0}, .devices = {"GPU-0"}});
  const auto settled = settle_shares(need(1), ranks_on({"n1"}), {{"n1", node_}}, Settling::kHostKnown, table_);
  ASSERT_TRUE(settled.ok()) << settled.status();
  ASSERT_EQ(settled->size(), 1u);
  EXPECT_EQ(settled->front().share, (model::HostShare{.cpus = {1}, .devices = {"GPU-1"}}));
  EXPECT_EQ(use("n1").devices().size(), 2u);
}

// An earlier launcherd knew no shares, so it bound the job's ranks to the whole host.
TEST_F(SettleShares, RanksThatRunWithoutOneAreCountedWithWhatTheyHave) {
  const auto settled =
      settle_shares(need(2), ranks_on({"n1", "n2"}), {{.name = "n1", .shape = node_, .has_launched = true}},
                    Settling::kBeforeLaunch, table_);
  ASSERT_TRUE(settled.ok()) << settled.status();
  ASSERT_EQ(settled->size(), 1u);
  EXPECT_THAT(settled->front().share->devices, ElementsAre("GPU-0"));
  EXPECT_THAT(settled->front().share->cpus, ElementsAre(0, 1));
  EXPECT_TRUE(use("n1").devices().contains("GPU-0"));
  EXPECT_TRUE(use("n2").devices().empty()) << "nothing is known of it";
}

TEST_F(SettleShares, WhoHasAShareKeepsIt) {
  model::Placement placement = ranks_on({"n1"});
  placement.hosts[0].share = model::HostShare{.cpus = {0}, .devices = {"GPU-0"}};
  table_.acquire(placement);
  for (const Settling settling : {Settling::kHostKnown, Settling::kBeforeLaunch}) {
    const auto settled = settle_shares(need(1), placement, {{"n1", node_}}, settling, table_);
    ASSERT_TRUE(settled.ok()) << settled.status();
    EXPECT_TRUE(settled->empty());
  }
}

TEST_F(SettleShares, AShareThatIsNotThereAnyMoreIsDecidedAnewBeforeTheLaunch) {
  model::Placement placement = ranks_on({"n1"});
  placement.hosts[0].share = model::HostShare{.cpus = {0}, .devices = {"GPU-old"}};
  table_.acquire(placement);
  EXPECT_TRUE(settle_shares(need(1), placement, {{"n1", node_}}, Settling::kHostKnown, table_)->empty());
  const auto settled = settle_shares(need(1), placement, {{"n1", node_}}, Settling::kBeforeLaunch, table_);
  ASSERT_TRUE(settled.ok()) << settled.status();
  EXPECT_THAT(settled->at(0).share->devices, ElementsAre("GPU-0"));
  EXPECT_FALSE(use("n1").devices().contains("GPU-old"));
  // Running ranks keep their share, whatever the host reports now.
  EXPECT_TRUE(settle_shares(need(1), placement, {{.name = "n1", .shape = node_, .has_launched = true}},
                            Settling::kBeforeLaunch, table_)
                  ->empty());
}

TEST_F(SettleShares, AShareThatCannotBeReplacedIsAnErrorAndStays) {
  model::Placement placement = ranks_on({"n2", "n1"});
  placement.hosts[1].share = model::HostShare{.devices = {"GPU-old"}};
  table_.acquire(placement);
  table_.acquire_share("n1", {.devices = {"GPU-0", "GPU-1"}});
  const auto settled =
      settle_shares(need(2), placement, {{"n1", node_}, {"n2", node_}}, Settling::kBeforeLaunch, table_);
  EXPECT_EQ(settled.status().code(), base::Code::kFailedPrecondition);
  EXPECT_THAT(settled.status().message(), ::testing::StartsWith("n1: its cores or GPUs have changed since"));
  EXPECT_TRUE(use("n1").devices().contains("GPU-old"));
  EXPECT_TRUE(use("n2").shares().empty()) << "what was decided before it is given back";
}

// The job started on n2 before its identity was known. Other jobs use the same host by another name.
TEST_F(SettleShares, WhatOthersHaveMayBeWaitedFor) {
  table_.learn("n2", node_, "n1");
  table_.acquire_share("n1", {.cpus = {0, 1}, .devices = {"GPU-0", "GPU-1"}});
  const model::Placement placement = ranks_on({"n2"});
  const auto settled = settle_shares(need(1), placement, {{"n2", node_}}, Settling::kBeforeLaunch, table_);
  EXPECT_EQ(settled.status().code(), base::Code::kUnavailable);
  EXPECT_EQ(settled.status().message(), "n2: 0 of 2 GPUs are free there: other jobs use them");
  const JobNeed too_much = need(1, {.gpu_bind = model::GpuBind::kOne, .gpus_per_rank = 3});
  const auto refused = settle_shares(too_much, placement, {{"n2", node_}}, Settling::kBeforeLaunch, table_);
  EXPECT_EQ(refused.status().code(), base::Code::kInvalidArgument);
  EXPECT_EQ(refused.status().message(), "n2: --gpus-per-rank 3: ranks may use only 2 GPUs on that host")
      << "not what is free now";
  table_.release_share("n1", {.cpus = {0, 1}, .devices = {"GPU-0", "GPU-1"}});
  EXPECT_TRUE(settle_shares(need(1), placement, {{"n2", node_}}, Settling::kBeforeLaunch, table_).ok());
  const auto never = settle_shares(need(2, {.gpu_bind = model::GpuBind::kOne, .gpus_per_rank = 3}), placement,
                                   {{"n2", node_}}, Settling::kBeforeLaunch, table_);
  EXPECT_EQ(never.status().code(), base::Code::kInvalidArgument);
}

TEST_F(SettleShares, AHostThatIsNotInTheListAnyMoreHasNoShares) {
  const auto settled = settle_shares(need(1), ranks_on({"n9"}), {{"n9", node_}}, Settling::kBeforeLaunch, table_);
  ASSERT_TRUE(settled.ok()) << settled.status();
  EXPECT_TRUE(settled->empty());
  model::Placement placement = ranks_on({"n9"});
  placement.hosts[0].share = model::HostShare{.devices = {"GPU-old"}};
  const auto without = settle_shares(need(1), placement, {{"n9", node_}}, Settling::kBeforeLaunch, table_);
  ASSERT_TRUE(without.ok()) << without.status();
  ASSERT_EQ(without->size(), 1u);
  EXPECT_FALSE(without->front().share);
}

// --bind-to list: named cores are granted even if another job uses them, also on a host that was unknown at the job's
// placement.
TEST_F(SettleShares, CoresThatAreNamedAreHadOnAHostThatWasNotKnown) {
  table_.acquire_share("n1", {.cpus = {0, 1}});
  const JobNeed named = need(1, {.bind_to = model::BindTo::kList, .cpu_lists = {{1}}});
  EXPECT_FALSE(named.share.is_choosy()) << "it is started there";
  const auto settled = settle_shares(named, ranks_on({"n1"}), {{"n1", node_}}, Settling::kHostKnown, table_);
  ASSERT_TRUE(settled.ok()) << settled.status();
  EXPECT_THAT(settled->at(0).share->cpus, ElementsAre(1));
  const auto none = settle_shares(need(1, {.bind_to = model::BindTo::kList, .cpu_lists = {{7}}}), ranks_on({"n2"}),
                                  {{"n2", node_}}, Settling::kBeforeLaunch, table_);
  EXPECT_EQ(none.status().code(), base::Code::kInvalidArgument);
  EXPECT_THAT(none.status().message(), ::testing::StartsWith("n2: "));
}

}  // namespace
}  // namespace muster::launcherd::deferred_share_test
