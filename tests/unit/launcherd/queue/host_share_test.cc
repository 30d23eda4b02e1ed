// Tests jobs that share a host: what each of them gets, and which of them wait.
#include "launcherd/queue/host_share.h"

#include <algorithm>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcherd/queue/fit.h"
#include "launcherd/queue/job_need.h"
#include "launcherd/queue/job_queue.h"
#include "launcherd/queue/why_not.h"
#include "model/host_binding.h"

namespace muster::launcherd::host_share_test {
namespace {

using model::BindTo;
using model::GpuBind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

model::NodeShape node_of(int cores, int gpus) {
  model::NodeShape node;
  for (int cpu = 0; cpu < cores; ++cpu) {
    node.cores.push_back({.socket = cpu * 2 / cores, .numa = cpu * 2 / cores, .cpus = {cpu, cpu + cores}});
  }
  for (int i = 0; i < gpus; ++i) {
    model::GpuShape& gpu = node.gpus.emplace_back();
    gpu.index = i;
    gpu.uuid = "GPU-" + std::to_string(i);
    gpu.numa = i * 2 / gpus;
  }
  return node;
}

SlotHost host(const std::string& name, int slots, const model::NodeShape& node) {
  SlotHost host{.host = {.name = name, .slots = slots}, .slots = slots, .is_shared = true};
  host.shape = std::make_shared<const model::NodeShape>(node);
  return host;
}

JobNeed need(int np, const model::Pinning& pinning = {}) {
  JobNeed need;
  need.request.np = np;
  need.share.pinning = pinning;
  return need;
}

// Starts the job now if it fits, and returns its share.
std::optional<model::HostShare> start(const JobNeed& need, std::vector<SlotHost>& hosts) {
  const auto placement = fit(need, hosts);
  if (!placement) return std::nullopt;
  acquire_slots(*placement, hosts);
  return placement->hosts.front().share;
}

constexpr model::Pinning kOne{.gpu_bind = GpuBind::kOne};
constexpr model::Pinning kNoGpu{.gpu_bind = GpuBind::kNone};

TEST(HostShare, JobsOfOneRankHaveEachItsOwn) {
  for (const model::Pinning& pinning : {model::Pinning(), kOne}) {
    std::vector<SlotHost> hosts = {host("n1", 4, node_of(8, 4))};
    std::set<std::string> gpus;
    std::set<int> cpus;
    for (int job = 0; job < 4; ++job) {
      const auto share = start(need(1, pinning), hosts);
      ASSERT_TRUE(share) << job;
      ASSERT_EQ(share->devices.size(), 1u);
      gpus.insert(share->devices.front());
      EXPECT_EQ(share->cpus.size(), 4u);  // two cores with two threads each
      cpus.insert(share->cpus.begin(), share->cpus.end());
    }
    EXPECT_EQ(gpus.size(), 4u);
    EXPECT_EQ(cpus.size(), 16u);
  }
}

TEST(HostShare, WhoHasAllSlotsHasAllOfTheHost) {
  std::vector<SlotHost> hosts = {host("n1", 2, node_of(8, 4))};
  const auto share = start(need(2), hosts);
  ASSERT_TRUE(share);
  EXPECT_EQ(share->devices.size(), 4u);
  EXPECT_EQ(share->cpus.size(), 16u);
}

TEST(HostShare, WhatWasGivenBackIsTakenAgain) {
  std::vector<SlotHost> hosts = {host("n1", 2, node_of(4, 2))};
  const auto first = fit(need(1, kOne), hosts);
  acquire_slots(*first, hosts);
  const auto second = fit(need(1, kOne), hosts);
  acquire_slots(*second, hosts);
  EXPECT_NE(first->hosts[0].share->devices, second->hosts[0].share->devices);
  release_slots(*first, hosts);
  EXPECT_EQ(start(need(1, kOne), hosts), first->hosts[0].share);
}

TEST(HostShare, GpusThatAreNotFreeAreWaitedFor) {
  std::vector<SlotHost> hosts = {host("n1", 4, node_of(8, 4))};
  const JobNeed large = need(1, {.gpu_bind = GpuBind::kOne, .gpus_per_rank = 3});
  ASSERT_TRUE(start(large, hosts));
  EXPECT_FALSE(start(large, hosts));
  EXPECT_EQ(why_not(large, hosts), "needs 3 GPUs, 1 is free on n1");
  EXPECT_EQ(why_not(need(2), hosts), "needs 2 GPUs, 1 is free on n1 (--gpu-bind none if its ranks need none)");
  EXPECT_TRUE(start(need(1, kOne), hosts));
  EXPECT_FALSE(start(need(1), hosts));
  const auto without = start(need(1, kNoGpu), hosts);
  ASSERT_TRUE(without);
  EXPECT_THAT(without->devices, IsEmpty());
  EXPECT_TRUE(start(need(1, {.gpu_bind = GpuBind::kOne, .share_gpu = true}), hosts) == std::nullopt)
      << "what it would share, nobody shares";
}

TEST(HostShare, ThoseThatWantItShare) {
  std::vector<SlotHost> hosts = {host("n1", 4, node_of(8, 1))};
  const JobNeed sharing = need(1, {.gpu_bind = GpuBind::kOne, .share_gpu = true});
  EXPECT_EQ(start(sharing, hosts)->devices, start(sharing, hosts)->devices);
  EXPECT_FALSE(start(need(1, kOne), hosts)) << "it wants its own";
}

// The host has more slots than GPUs, so it is meant for more jobs than GPUs. These jobs have not asked for GPUs.
TEST(HostShare, WhoHasNotAskedSharesWhereThereAreMoreSlotsThanGpus) {
  std::vector<SlotHost> hosts = {host("n1", 8, node_of(8, 2))};
  std::map<std::string, int> users;
  for (int job = 0; job < 6; ++job) ++users[start(need(1), hosts)->devices.at(0)];
  EXPECT_THAT(users, ElementsAre(std::pair("GPU-0", 3), std::pair("GPU-1", 3)));
  EXPECT_FALSE(start(need(1, kOne), hosts));
  EXPECT_EQ(why_not(need(1, kOne), hosts), "needs 1 GPU, 0 are free on n1");
}

TEST(HostShare, PartsOfADividedGpuAreDevices) {
  model::NodeShape node = node_of(4, 1);
  node.gpus[0].is_divided = true;
  node.gpus[0].parts = {{.uuid = "MIG-a"}, {.uuid = "MIG-b"}};
  std::vector<SlotHost> hosts = {host("n1", 4, node)};
  EXPECT_THAT(start(need(1, kOne), hosts)->devices, ElementsAre("MIG-a"));
  EXPECT_THAT(start(need(1, kOne), hosts)->devices, ElementsAre("MIG-b"));
  EXPECT_FALSE(start(need(1, kOne), hosts));
}

TEST(HostShare, TilesOfADescribedGpuAreDevices) {
  std::vector<SlotHost> hosts = {host("n1", 4, node_of(4, 0))};
  const model::Pinning tile{.gpu_bind = GpuBind::kTile, .gpus = 1, .tiles = 2};
  EXPECT_THAT(start(need(1, tile), hosts)->devices, ElementsAre("intel:0.0"));
  EXPECT_FALSE(start(need(1, {.gpu_bind = GpuBind::kOne, .gpus = 1, .tiles = 2}), hosts)) << "a tile of it is taken";
  EXPECT_THAT(start(need(1, tile), hosts)->devices, ElementsAre("intel:0.1"));
  EXPECT_FALSE(start(need(1, tile), hosts));
}

TEST(HostShare, CoresOfEveryRule) {
  std::vector<SlotHost> hosts = {host("n1", 4, node_of(8, 0))};
  EXPECT_THAT(start(need(1, {.bind_to = BindTo::kDepth, .depth = 9}), hosts), std::nullopt) << "no socket has nine";
  EXPECT_THAT(start(need(1, {.bind_to = BindTo::kDepth, .depth = 3}), hosts)->cpus, ElementsAre(0, 1, 2, 8, 9, 10));
  EXPECT_THAT(start(need(1), hosts)->cpus, ElementsAre(4, 5, 12, 13)) << "the share that nobody has";
  EXPECT_THAT(start(need(1, {.bind_to = BindTo::kNone}), hosts)->cpus, IsEmpty());
  EXPECT_THAT(start(need(1, {.bind_to = BindTo::kList, .cpu_lists = {{0, 4}}}), hosts)->cpus, ElementsAre(0, 4, 8, 12))
      << "who names cores has them";
}

TEST(HostShare, MoreSlotsThanCoresBindNobody) {
  std::vector<SlotHost> hosts = {host("n1", 4, node_of(2, 0))};
  const auto share = start(need(1), hosts);
  ASSERT_TRUE(share);
  EXPECT_TRUE(share->is_crowded);
  EXPECT_THAT(share->cpus, IsEmpty());
}

TEST(HostShare, PlacedRanksDoNotGetWhatOthersHave) {
  std::vector<SlotHost> hosts = {host("n1", 4, node_of(8, 4))};
  JobNeed placed = need(1);
  placed.places = {{.rank = 0, .host = "n1", .cpus = {2}, .gpus = {"GPU-2"}}};
  EXPECT_EQ(start(placed, hosts), (model::HostShare{.cpus = {2, 10}, .devices = {"GPU-2"}}));
  EXPECT_FALSE(start(placed, hosts));
  EXPECT_THAT(why_not(placed, hosts), HasSubstr("GPU-2, which another job uses"));
  std::set<std::string> others;
  for (int job = 0; job < 3; ++job) others.insert(start(need(1), hosts)->devices.at(0));
  EXPECT_EQ(others, (std::set<std::string>{"GPU-0", "GPU-1", "GPU-3"}));
}

// A job with a rank that gets assigned GPUs, and a rank whose role names them.
JobNeed with_role(const std::string& mask, const model::Pinning& pinning) {
  JobNeed both = need(2, pinning);
  both.share.role_masks = {{.first = 1, .count = 1, .masks = {.cuda = mask}}};
  return both;
}

TEST(HostShare, GpusThatRolesNameAreTheirs) {
  for (const model::Pinning& pinning : {model::Pinning(), kOne}) {
    std::vector<SlotHost> hosts = {host("n1", 8, node_of(8, 8))};
    const auto share = start(with_role("5,6", pinning), hosts);
    ASSERT_TRUE(share);
    EXPECT_THAT(share->devices, ElementsAre("GPU-0", "GPU-5", "GPU-6"));
    EXPECT_FALSE(start(with_role("6", pinning), hosts));
    EXPECT_EQ(why_not(with_role("6", pinning), hosts), "n1: one of its roles names GPU-6, which another job uses");
    EXPECT_TRUE(start(with_role("7", pinning), hosts));
    EXPECT_EQ(hosts[0].use.devices().size(), 5u);
    for (int job = 0; job < 3; ++job) EXPECT_EQ(start(need(1, pinning), hosts)->devices.size(), 1u);
    EXPECT_FALSE(start(need(1, pinning), hosts));
  }
}

// Parameter servers run next to workers. As many GPUs as workers suffice.
TEST(HostShare, ARoleThatHidesGpusWaitsForNone) {
  JobNeed job = need(4, kOne);
  job.share.role_masks = {{.first = 0, .count = 2, .masks = {.cuda = ""}}};
  std::vector<SlotHost> hosts = {host("n1", 4, node_of(8, 2))};
  const auto share = start(job, hosts);
  ASSERT_TRUE(share);
  EXPECT_THAT(share->devices, ::testing::UnorderedElementsAre("GPU-0", "GPU-1"));
  hosts = {host("n1", 5, node_of(8, 2))};
  ASSERT_TRUE(start(need(1, kOne), hosts));
  EXPECT_FALSE(fit(job, hosts));
  EXPECT_EQ(why_not(job, hosts), "n1: 1 of 2 GPUs are free there");
}

TEST(HostShare, GpusThatRolesNameAreSharedAsOthersAre) {
  std::vector<SlotHost> hosts = {host("n1", 8, node_of(8, 2))};  // more slots than GPUs
  EXPECT_TRUE(start(with_role("0", {}), hosts));
  EXPECT_TRUE(start(with_role("0", {}), hosts));
  EXPECT_FALSE(with_role("0", {}).is_like(with_role("1", {})));
}

TEST(HostShare, WhoIsPlacedBesideOthersWaitsForTheGpusOfTheRest) {
  std::vector<SlotHost> hosts = {host("n1", 8, node_of(8, 4))};
  hosts[0].slots = 4;
  const auto two = fit(need(2), hosts);
  ASSERT_TRUE(two);
  acquire_slots(*two, hosts);
  hosts[0].used = 0;  // slots are not the limit here
  const std::vector<std::string>& others = two->hosts.front().share->devices;
  JobNeed placed = need(3);
  placed.places = {{.rank = 0, .host = "n1", .gpus = {}}, {.rank = 1, .host = "n1"}, {.rank = 2, .host = "n1"}};
  for (const std::string id : {"GPU-0", "GPU-1", "GPU-2", "GPU-3"}) {
    if (std::ranges::find(others, id) != others.end()) continue;
    placed.places[placed.places[0].gpus.empty() ? 0 : 1].gpus = {id};
  }
  ASSERT_EQ(placed.places[1].gpus.size(), 1u);
  EXPECT_FALSE(fit(placed, hosts));
  EXPECT_EQ(why_not(placed, hosts), "n1: 0 of 2 GPUs are free there");
  release_slots(*two, hosts);
  const auto started = fit(placed, hosts);
  ASSERT_TRUE(started);
  EXPECT_EQ(started->hosts.front().share->devices.size(), 3u);
}

// The models differ, so the numbers of a mask are CUDA's own and may mean any GPU there.
TEST(HostShare, OneGpuUnderTwoNamesIsNotTwoJobs) {
  model::NodeShape node = node_of(8, 2);
  node.gpus[0].model = "another";
  JobNeed numbered = need(1, kOne);
  numbered.share.masks.cuda = "0";
  for (const bool is_numbered_first : {true, false}) {
    std::vector<SlotHost> hosts = {host("n1", 2, node)};
    const auto first = start(is_numbered_first ? numbered : need(1, kOne), hosts);
    ASSERT_TRUE(first);
    EXPECT_THAT(first->devices, ElementsAre(is_numbered_first ? "cuda:0" : "GPU-0"));
    const JobNeed second = is_numbered_first ? need(1, kOne) : numbered;
    EXPECT_FALSE(fit(second, hosts));
    EXPECT_EQ(why_not(second, hosts), "needs 1 GPU, 0 are free on n1");
  }
  // A job with share_gpu shares that GPU.
  std::vector<SlotHost> hosts = {host("n1", 2, node)};
  numbered.share.pinning.share_gpu = true;
  ASSERT_TRUE(start(numbered, hosts));
  EXPECT_TRUE(fit(need(1, {.gpu_bind = GpuBind::kOne, .share_gpu = true}), hosts));
  // A job was placed on a GPU before any UUID was known.
  model::NodeShape unknown = node_of(8, 2);
  for (model::GpuShape& gpu : unknown.gpus) gpu.uuid.clear();
  hosts = {host("n1", 2, unknown)};
  JobNeed placed = need(1);
  placed.places = {{.rank = 0, .host = "n1", .gpus = {"GPU-x"}}};
  ASSERT_TRUE(start(placed, hosts));
  EXPECT_FALSE(fit(need(1, kOne), hosts));
}

TEST(HostShare, AGpuIsOpenWhereAllItsTilesAre) {
  const model::Pinning tile{.gpu_bind = GpuBind::kTile, .gpus = 1, .tiles = 2};
  model::Pinning open_tile = tile;
  open_tile.share_gpu = true;
  const JobNeed whole = need(1, {.gpu_bind = GpuBind::kOne, .share_gpu = true, .gpus = 1, .tiles = 2});
  std::vector<SlotHost> hosts = {host("n1", 4, node_of(4, 0))};
  EXPECT_THAT(start(need(1, open_tile), hosts)->devices, ElementsAre("intel:0.0"));
  EXPECT_TRUE(fit(whole, hosts));
  EXPECT_THAT(start(need(1, tile), hosts)->devices, ElementsAre("intel:0.1"));
  EXPECT_FALSE(fit(whole, hosts)) << "another job has the second tile for itself";
}

TEST(HostShare, AnotherHostIsTakenWhereOneHasNotTheGpus) {
  std::vector<SlotHost> hosts = {host("n1", 4, node_of(8, 0)), host("n2", 4, node_of(8, 2))};
  const auto placement = fit(need(2, {.gpus_per_rank = 1}), hosts);
  ASSERT_TRUE(placement);
  EXPECT_EQ(placement->hosts.front().host.name, "n2");
  std::vector<SlotHost> cores = {host("n1", 4, node_of(4, 0)), host("n2", 4, node_of(16, 0))};
  EXPECT_EQ(fit(need(1, {.bind_to = BindTo::kDepth, .depth = 8}), cores)->hosts.front().host.name, "n2");
}

// --oversubscribe only allows more ranks than slots. With enough slots it changes nothing.
TEST(HostShare, WhoMayOversubscribeAndNeedNotIsPlacedAsOthersAre) {
  const std::vector<SlotHost> hosts = {host("n1", 4, node_of(4, 0)), host("n2", 4, node_of(16, 0))};
  model::JobSpec job;
  job.placement.np = 1;
  job.placement.oversubscribe = true;
  job.pinning = {.bind_to = BindTo::kDepth, .depth = 8};
  const auto wanted = need_of(job, hosts);
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  const auto placement = fit(*wanted, hosts);
  ASSERT_TRUE(placement);
  EXPECT_EQ(placement->hosts.front().host.name, "n2");
  job.placement.np = 9;  // more than the eight slots: uses all of them, and n1 is one of the job's hosts
  EXPECT_FALSE(need_of(job, hosts).ok());
}

TEST(HostShare, GpusThatAreAskedForAreNotLookedForOnHostsWithout) {
  std::vector<SlotHost> hosts = {host("n1", 2, node_of(8, 0)), host("n2", 2, node_of(8, 1))};
  EXPECT_EQ(start(need(1, kOne), hosts)->devices.size(), 1u);
  EXPECT_FALSE(fit(need(1, kOne), hosts));
  EXPECT_EQ(why_not(need(1, kOne), hosts), "needs 1 GPU, 0 are free on n1 and n2");
  hosts[1].is_drained = true;
  EXPECT_FALSE(fit(need(1, kOne), hosts));
  // If no host has a GPU, the job gets none.
  const std::vector<SlotHost> without = {host("n1", 2, node_of(8, 0)), host("n2", 2, node_of(8, 0))};
  EXPECT_TRUE(fit(need(3, kOne), without));
  // All slots of the named hosts include all GPUs, and hosts without GPUs.
  const std::vector<SlotHost> named = {host("n1", 1, node_of(8, 0)), host("n2", 2, node_of(8, 2))};
  JobNeed all = need(3, kOne);
  all.request.hosts = {{.name = "n1"}, {.name = "n2"}};
  EXPECT_TRUE(fit(all, named));
}

TEST(HostShare, ADepthIsNeverOfOtherJobsCores) {
  std::vector<SlotHost> hosts = {host("n1", 4, node_of(4, 0))};
  const JobNeed deep = need(1, {.bind_to = BindTo::kDepth, .depth = 4});
  ASSERT_TRUE(start(deep, hosts));
  ASSERT_TRUE(start(deep, hosts));
  EXPECT_FALSE(start(deep, hosts));
  EXPECT_EQ(why_not(deep, hosts), "n1: no core is free there");
}

TEST(HostShare, AJobThatNoHostCanEverRunIsToldSo) {
  constexpr const char* kNever = "; none of the present hosts could ever run it";
  const JobNeed deep = need(1, {.bind_to = BindTo::kDepth, .depth = 32});
  std::vector<SlotHost> hosts = {host("n1", 4, node_of(4, 0)), host("n2", 4, node_of(4, 0))};
  EXPECT_THAT(why_not(deep, hosts), HasSubstr(kNever));
  // Resources in use become free again.
  const JobNeed half = need(1, {.bind_to = BindTo::kDepth, .depth = 4});
  while (start(half, hosts)) continue;
  EXPECT_THAT(why_not(half, hosts), Not(HasSubstr(kNever)));
  // A host that has not reported yet may fit as well.
  hosts[1].shape = nullptr;
  EXPECT_THAT(why_not(deep, hosts), Not(HasSubstr(kNever)));
}

TEST(HostShare, AnyNumberOfHostsMayNotDo) {
  std::vector<SlotHost> hosts;
  for (int i = 0; i < 40; ++i) hosts.push_back(host("n" + std::to_string(i), 2, node_of(4, 0)));
  hosts.push_back(host("large", 2, node_of(64, 0)));
  model::JobSpec job;
  job.placement.np = 1;
  job.pinning = {.bind_to = BindTo::kDepth, .depth = 32};
  const auto wanted = need_of(job, hosts);
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  EXPECT_EQ(fit(*wanted, hosts)->hosts.front().host.name, "large");
  // Each host gets as many ranks as its cores allow.
  EXPECT_EQ(fit(need(4, {.bind_to = BindTo::kDepth, .depth = 4}),
                std::vector<SlotHost>{host("n1", 8, node_of(4, 0)), host("n2", 8, node_of(4, 0))})
                ->hosts.size(),
            2u);
}

TEST(HostShare, WhatCanNeverBeHadIsRefused) {
  model::JobSpec job;
  job.placement.np = 3;
  job.pinning = kOne;
  std::vector<SlotHost> hosts = {host("n1", 4, node_of(8, 2))};
  const auto refused = need_of(job, hosts);
  EXPECT_EQ(refused.status().code(), base::Code::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("n1: 3 ranks need 1 GPU each, but ranks may use 2 GPUs"));
  hosts[0].shape = nullptr;  // the host may have them
  const auto wanted = need_of(job, hosts);
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  // An accepted job waits, even if a host has lost its GPUs for a while.
  JobQueue queue;
  const base::JobId id = *base::JobId::parse("aaaaaaaa");
  queue.add(id, 0, 0, *wanted);
  hosts = {host("n1", 4, node_of(8, 2))};
  EXPECT_THAT(queue.start(hosts), IsEmpty());
  EXPECT_EQ(queue.reason(id, hosts), "needs 3 GPUs, 2 are free on n1; none of the present hosts could ever run it");
  hosts = {host("n1", 4, node_of(8, 3))};
  EXPECT_EQ(queue.start(hosts).size(), 1u);
}

// Another host with more GPUs may join. The reason says what the present hosts lack.
TEST(HostShare, WhatNoHostHasIsWaitedForWhereMoreHostsMayCome) {
  model::JobSpec job;
  job.placement.np = 1;
  job.pinning = {.gpu_bind = GpuBind::kOne, .gpus_per_rank = 3};
  std::vector<SlotHost> hosts = {host("n1", 4, node_of(8, 2))};
  const auto wanted = need_of(job, hosts, true);
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  EXPECT_EQ(why_not(*wanted, hosts), "needs 3 GPUs, 2 are free on n1; none of the present hosts could ever run it");
  job.pinning = {.gpu_order = model::GpuOrder::kList, .gpu_list = {7}};
  EXPECT_THAT(why_not(*need_of(job, hosts, true), hosts), HasSubstr("n1: --gpu-order names GPU 7"));
  // A job that names its hosts is refused, as it is for lack of slots.
  job.placement.hosts = {{.name = "n1"}};
  const auto refused = need_of(job, hosts, true);
  EXPECT_EQ(refused.status().code(), base::Code::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("n1: --gpu-order names GPU 7"));
}

TEST(HostShare, WhoAsksForGpusOrCoresIsStartedWhereTheyAreKnown) {
  const JobNeed gpu = need(1, {.gpu_bind = GpuBind::kOne, .gpus_per_rank = 1});
  const JobNeed deep = need(1, {.bind_to = BindTo::kDepth, .depth = 4});
  JobNeed over = need(9, kOne);
  over.request.oversubscribe = true;
  JobNeed placed = gpu;
  placed.places = {{.rank = 0, .host = "n1"}};
  placed.request.hosts = {{.name = "n1"}};
  for (const JobNeed& each : {gpu, deep, over, placed}) {
    std::vector<SlotHost> hosts = {host("n1", 2, {}), host("n2", 2, {}), host("n3", 2, {})};
    for (SlotHost& host : hosts) host.shape = nullptr;
    hosts[2].is_down = true;
    JobQueue queue;
    const base::JobId id = *base::JobId::parse("aaaaaaaa");
    EXPECT_THAT(queue.hosts_to_ask(hosts), IsEmpty());
    queue.add(id, 0, 0, each);
    EXPECT_THAT(queue.start(hosts), IsEmpty());
    EXPECT_THAT(queue.reason(id, hosts), ::testing::MatchesRegex("waits until n1 reports its (cores and )?GPUs"));
    const auto unreported = queue.hosts_to_ask(hosts);
    ASSERT_EQ(unreported.size(), each.places.empty() ? 2u : 1u);
    EXPECT_EQ(unreported[0].name, "n1");
    // Another job may still use the host.
    EXPECT_TRUE(fit(need(1), hosts));
    hosts[0] = host("n1", 2, node_of(8, 2));
    if (each.request.oversubscribe) {
      EXPECT_THAT(queue.start(hosts), IsEmpty());
      EXPECT_EQ(queue.reason(id, hosts), "waits until n2 reports its GPUs");
      hosts[1].is_down = true;  // launcherd cannot ask it
    }
    if (!each.request.oversubscribe) {
      const auto started = queue.start(hosts);
      ASSERT_EQ(started.size(), 1u);
      EXPECT_EQ(started[0].placement.hosts[0].host.name, "n1");
    }
    EXPECT_THAT(queue.hosts_to_ask(hosts), IsEmpty());
  }
}

// No open host has the job's cores or GPUs, so the queue reserves nothing for it.
TEST(HostShare, WhoNeverFitsOnOpenHostsHoldsNobodyUp) {
  const model::Pinning deep{.bind_to = BindTo::kDepth, .depth = 500};
  const model::Pinning seventh{.gpu_order = model::GpuOrder::kList, .gpu_list = {7}};
  for (const model::Pinning& pinning : {deep, seventh}) {
    std::vector<SlotHost> hosts = {host("n1", 1, node_of(8, 2)), host("n2", 1, node_of(512, 8))};
    hosts[1].is_down = true;
    JobQueue queue;
    queue.add(*base::JobId::parse("aaaaaaaa"), 9, 0, need(1, pinning));
    ASSERT_TRUE(fit(need(1, pinning), std::vector<SlotHost>{host("n2", 1, node_of(1024, 8))}));
    for (std::uint64_t job = 1; job <= 3 * JobQueue::kMostOvertakes; ++job) {
      queue.add(*base::JobId::parse("bbbbbbbb"), 0, job, need(1));
      const auto started = queue.start(hosts);
      ASSERT_EQ(started.size(), 1u) << job;
      release_slots(started[0].placement, hosts);
    }
    hosts[1].is_down = false;
    hosts[1] = host("n2", 1, node_of(1024, 8));
    EXPECT_EQ(queue.start(hosts).size(), 1u);
  }
}

TEST(HostShare, OneJobAtATimeFindsOutWhatAHostHas) {
  std::vector<SlotHost> hosts = {host("n1", 4, {})};
  hosts[0].shape = nullptr;
  JobQueue queue;
  queue.add(*base::JobId::parse("aaaaaaaa"), 0, 0, need(1));
  queue.add(*base::JobId::parse("bbbbbbbb"), 0, 1, need(1));
  const auto started = queue.start(hosts);
  ASSERT_EQ(started.size(), 1u);
  EXPECT_FALSE(started[0].placement.hosts[0].share);
  EXPECT_EQ(queue.reason(*base::JobId::parse("bbbbbbbb"), hosts),
            "waits until n1 reports its cores and GPUs: another job is starting there");
}

// One host of eight cores and four GPUs that the list names twice.
std::vector<SlotHost> two_names() {
  std::vector<SlotHost> hosts = {host("n1", 2, node_of(8, 4)), host("alias", 2, node_of(8, 4))};
  for (SlotHost& each : hosts) {
    each.machine = 0;
    each.slots_of_names = 4;
  }
  return hosts;
}

JobNeed on(const std::string& name, JobNeed need) {
  need.request.hosts = {{.name = name}};
  return need;
}

TEST(HostShare, JobsByTwoNamesOfAHostHaveDifferentThings) {
  std::vector<SlotHost> hosts = two_names();
  std::set<std::string> gpus;
  std::set<int> cpus;
  for (const char* const name : {"n1", "alias", "alias", "n1"}) {
    const auto share = start(on(name, need(1, kOne)), hosts);
    ASSERT_TRUE(share) << name;
    gpus.insert(share->devices.at(0));
    cpus.insert(share->cpus.begin(), share->cpus.end());
    EXPECT_EQ(share->cpus.size(), 4u) << "a quarter of them";
  }
  EXPECT_EQ(gpus.size(), 4u);
  EXPECT_EQ(cpus.size(), 16u);
}

TEST(HostShare, AJobByTwoNamesOfAHostHasEachThingOnce) {
  for (const model::Pinning& pinning :
       {model::Pinning(), kOne, model::Pinning{.bind_to = BindTo::kDepth, .depth = 2}}) {
    std::vector<SlotHost> hosts = two_names();
    const auto placement = fit(need(4, pinning), hosts);
    ASSERT_TRUE(placement);
    ASSERT_EQ(placement->hosts.size(), 2u);
    std::set<std::string> gpus;
    std::set<int> cpus;
    for (const model::PlacedHost& placed : placement->hosts) {
      gpus.insert(placed.share->devices.begin(), placed.share->devices.end());
      cpus.insert(placed.share->cpus.begin(), placed.share->cpus.end());
    }
    EXPECT_EQ(gpus.size(), 4u);
    EXPECT_EQ(cpus.size(), 16u);
    EXPECT_EQ(placement->hosts[0].share->devices.size(), 2u);
    acquire_slots(*placement, hosts);
    EXPECT_EQ(hosts[0].use.devices().size(), 4u);
    release_slots(*placement, hosts);
    EXPECT_THAT(hosts[0].use.shares(), IsEmpty());
    EXPECT_THAT(hosts[1].use.shares(), IsEmpty());
  }
}

TEST(HostShare, WhatIsNotFreeByOneNameIsNotByTheOther) {
  std::vector<SlotHost> hosts = two_names();
  ASSERT_TRUE(start(on("n1", need(1, {.gpu_bind = GpuBind::kOne, .gpus_per_rank = 3})), hosts));
  const JobNeed two = need(2, kOne);
  EXPECT_FALSE(fit(two, hosts));
  EXPECT_EQ(why_not(two, hosts), "needs 2 GPUs, 1 is free on n1 and alias");
  EXPECT_TRUE(start(on("alias", need(1, kOne)), hosts));
}

// Otherwise jobs by the other name would use its GPUs for ever.
TEST(HostShare, WhoWaitsForAHostIsNotOvertakenForEverByItsOtherName) {
  std::vector<SlotHost> hosts = two_names();
  JobQueue queue;
  queue.add(*base::JobId::parse("aaaaaaaa"), 9, 0, on("n1", need(1, {.gpu_bind = GpuBind::kOne, .gpus_per_rank = 4})));
  ASSERT_TRUE(start(on("alias", need(1, kOne)), hosts));
  int overtakes = 0;
  for (std::uint64_t job = 1; job <= 3 * JobQueue::kMostOvertakes; ++job) {
    queue.add(base::JobId::random(), 0, job, on("alias", need(1, kOne)));
    for (const JobQueue::Start& each : queue.start(hosts)) {
      ++overtakes;
      release_slots(each.placement, hosts);
    }
  }
  EXPECT_EQ(overtakes, JobQueue::kMostOvertakes);
}

// Random jobs of all kinds start and end. Two jobs never share a device or a core unless both allow it.
TEST(HostShare, RandomLivesShareNothing) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto pick = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); };
    std::vector<SlotHost> hosts;
    for (int i = 0; i < 3; ++i) {
      const int slots = pick(1, 8);
      hosts.push_back(host("n" + std::to_string(i), slots, node_of(2 * pick(2, 8), pick(0, 8))));
    }
    std::vector<model::Placement> running;
    for (int turn = 0; turn < 200; ++turn) {
      JobNeed wish = need(pick(1, 4), {.bind_to = pick(0, 3) == 0 ? BindTo::kCore : BindTo::kShare,
                                       .gpu_bind = static_cast<GpuBind>(pick(0, 1)),
                                       .gpus_per_rank = pick(0, 2)});
      if (pick(0, 4) == 0) wish.share.pinning.gpu_bind = GpuBind::kNone;
      if (const auto placement = fit(wish, hosts)) {
        acquire_slots(*placement, hosts);
        running.push_back(*placement);
      }
      if (!running.empty() && pick(0, 2) == 0) {
        const auto at = running.begin() + pick(0, static_cast<int>(running.size()) - 1);
        release_slots(*at, hosts);
        running.erase(at);
      }
      for (const SlotHost& each : hosts) {
        std::map<std::string, int> users;
        std::map<int, int> cpus;
        for (const model::HostShare& share : each.use.shares()) {
          for (const std::string& id : share.devices) users[id] += share.is_open ? 0 : 1;
          for (const int cpu : share.cpus) ++cpus[cpu];
        }
        for (const auto& [id, count] : users) {
          ASSERT_LE(count, 1) << id;
          ASSERT_TRUE(count == 0 || each.use.devices().at(id).count == 1) << id << " is one job's, and others have it";
        }
        for (const auto& [cpu, count] : cpus) ASSERT_EQ(count, 1) << "cpu " << cpu;
      }
    }
    while (!running.empty()) {
      release_slots(running.back(), hosts);
      running.pop_back();
    }
    for (const SlotHost& each : hosts) {
      EXPECT_THAT(each.use.cpus(), IsEmpty());
      EXPECT_TRUE(each.use.devices().empty());
    }
  }
}

}  // namespace
}  // namespace muster::launcherd::host_share_test
