#include "model/host_binding.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"

namespace muster::model::host_binding_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two sockets of four cores, two GPUs at each.
NodeShape four_gpus() {
  NodeShape node;
  for (int cpu = 0; cpu < 8; ++cpu) node.cores.push_back({.socket = cpu / 4, .numa = cpu / 4, .cpus = {cpu}});
  for (int i = 0; i < 4; ++i) {
    GpuShape& gpu = node.gpus.emplace_back();
    gpu.index = i;
    gpu.uuid = fmt::format("GPU-{}", i);
    gpu.numa = i / 2;
    gpu.memory_mib = 1000;
  }
  return node;
}

GpuShape intel(int index) {
  return {.vendor = GpuVendor::kIntel, .index = index, .pci = fmt::format("0000:0{}:00.0", index), .tiles = 2};
}

std::vector<RankRequest> requests(const std::vector<RankPlace>& places) {
  std::vector<RankRequest> all;
  for (const RankPlace& place : places) all.push_back({.place = &place});
  return all;
}

NodeBinding bound(const NodeShape& node, const std::vector<RankPlace>& places, const Pinning& pinning = {},
                  const HostShare* share = nullptr) {
  auto binding = bind_host(node, requests(places), pinning, {}, share);
  EXPECT_TRUE(binding.ok()) << binding.status();
  return binding.ok() ? *std::move(binding) : NodeBinding();
}

std::string refused(const NodeShape& node, const std::vector<RankPlace>& places, const Pinning& pinning = {}) {
  const auto binding = bind_host(node, requests(places), pinning, {});
  return binding.ok() ? "" : binding.status().message();
}

std::string seen(const NodeBinding& binding, std::size_t rank) {
  std::vector<std::string> texts;
  for (const auto& [name, value] : binding.gpus[rank].variables) texts.push_back(name + "=" + value);
  return base::join(texts, " ");
}

TEST(HostBinding, WhatIsChosenGoesBeforeWhatIsDealt) {
  const auto binding =
      bound(four_gpus(), {{.rank = 0, .cpus = {1, 2}, .gpus = {"GPU-3", "GPU-0"}}, {.rank = 1, .cpus = {}, .gpus = {}}},
            {.gpu_bind = GpuBind::kOne});
  EXPECT_EQ(seen(binding, 0), "CUDA_VISIBLE_DEVICES=GPU-3,GPU-0");
  EXPECT_THAT(binding.cores[0].cpus, ElementsAre(1, 2));
  EXPECT_EQ(binding.cores[0].physical_cores, 2);
  EXPECT_THAT(binding.gpus[0].indices, ElementsAre(3, 0));
  const std::string other = seen(binding, 1);
  EXPECT_TRUE(other == "CUDA_VISIBLE_DEVICES=GPU-1" || other == "CUDA_VISIBLE_DEVICES=GPU-2") << other;
  EXPECT_THAT(binding.cores[1].cpus, ::testing::Not(::testing::IsSupersetOf({1, 2})));
  EXPECT_EQ(binding.dealt_ranks, 1);
}

TEST(HostBinding, TooFewAreNotMissedByWhoIsDealtNone) {
  std::vector<RankPlace> places;
  for (int rank = 0; rank < 6; ++rank) places.push_back({.rank = rank, .gpus = {fmt::format("GPU-{}", rank % 4)}});
  const auto binding = bound(four_gpus(), places, {.gpu_bind = GpuBind::kOne});
  EXPECT_EQ(seen(binding, 5), "CUDA_VISIBLE_DEVICES=GPU-1");
  EXPECT_EQ(binding.dealt_ranks, 0);
  places.push_back({.rank = 6});
  EXPECT_THAT(refused(four_gpus(), places, {.gpu_bind = GpuBind::kOne}), HasSubstr("other jobs have its GPUs"));
}

TEST(HostBinding, AChosenGpuMustBeThere) {
  EXPECT_EQ(refused(four_gpus(), {{.rank = 7, .gpus = {"GPU-9"}}}),
            "rank 7 is placed on GPU GPU-9, which the host does not have: it has GPU-0, GPU-1, GPU-2, GPU-3");
  EXPECT_THAT(refused({}, {{.rank = 0, .gpus = {"GPU-9"}}}), HasSubstr("it has none"));
  NodeShape known_from_files = four_gpus();
  for (GpuShape& gpu : known_from_files.gpus) {
    gpu.uuid.clear();
    gpu.memory_mib = 0;
  }
  EXPECT_EQ(seen(bound(known_from_files, {{.rank = 0, .gpus = {"GPU-9"}}}), 0), "CUDA_VISIBLE_DEVICES=GPU-9");
  EXPECT_EQ(seen(bound(known_from_files, {{.rank = 0, .gpus = {"MIG-9"}}}), 0), "CUDA_VISIBLE_DEVICES=MIG-9");
}

TEST(HostBinding, ADividedGpuIsChosenByItsParts) {
  NodeShape node = four_gpus();
  node.gpus[0].is_divided = true;
  node.gpus[0].parts = {{.uuid = "MIG-a"}, {.uuid = "MIG-b"}};
  EXPECT_EQ(seen(bound(node, {{.rank = 0, .gpus = {"MIG-b"}}}), 0), "CUDA_VISIBLE_DEVICES=MIG-b");
  EXPECT_THAT(refused(node, {{.rank = 0, .gpus = {"GPU-0"}}}),
              HasSubstr("the host does not have: it has MIG-a, MIG-b, GPU-1"));
}

TEST(HostBinding, TheVendorsVariableIsSet) {
  NodeShape node = four_gpus();
  node.gpus[0].pci = "0000:aa:00.0";
  node.gpus.push_back({.vendor = GpuVendor::kAmd, .index = 0, .uuid = "GPU-amd"});
  node.gpus.push_back(intel(0));
  node.gpus.push_back(intel(1));
  EXPECT_EQ(seen(bound(node, {{.rank = 0, .gpus = {"GPU-amd"}}}), 0), "ROCR_VISIBLE_DEVICES=GPU-amd");
  EXPECT_EQ(seen(bound(node, {{.rank = 0, .gpus = {"0000:01:00.0"}}}), 0),
            "ZE_ENABLE_PCI_ID_DEVICE_ORDER=1 ZE_AFFINITY_MASK=2,3");
  EXPECT_EQ(seen(bound(node, {{.rank = 0, .gpus = {"0000:aa:00.0"}}}), 0), "CUDA_VISIBLE_DEVICES=GPU-0");
  EXPECT_THAT(refused(node, {{.rank = 0, .gpus = {"GPU-1", "GPU-amd"}}}), HasSubstr("of two vendors"));
}

TEST(HostBinding, AShareIsAllThatThereIs) {
  const HostShare share{.cpus = {4, 5}, .devices = {"GPU-2"}};
  const auto binding = bound(four_gpus(), {{.rank = 0}}, {}, &share);
  EXPECT_EQ(seen(binding, 0), "CUDA_VISIBLE_DEVICES=GPU-2");
  EXPECT_THAT(binding.gpus[0].devices, ElementsAre("GPU-2"));
  EXPECT_THAT(binding.cores[0].cpus, ElementsAre(4, 5));
  const HostShare crowded{.is_crowded = true};
  EXPECT_TRUE(bound(four_gpus(), {{.rank = 0}}, {.gpu_bind = GpuBind::kNone}, &crowded).cores[0].cpus.empty());
  EXPECT_EQ(bound(four_gpus(), {{.rank = 0}}, {.gpu_bind = GpuBind::kNone}, &crowded).cores[0].physical_cores, 1);
}

// OMP_NUM_THREADS of its ranks, which are bound to no cores.
TEST(HostBinding, OnACrowdedHostARankHasOneThreadWhateverOthersArePlacedOn) {
  const HostShare crowded{.devices = {"GPU-0", "GPU-3"}, .is_crowded = true};
  for (const RankPlace& other : {RankPlace{.rank = 0, .gpus = {"GPU-3"}}, RankPlace{.rank = 0, .cpus = {1, 2}}}) {
    const auto binding = bound(four_gpus(), {other, {.rank = 1}}, {}, &crowded);
    EXPECT_EQ(binding.cores[0].physical_cores, other.cpus.empty() ? 1 : 2);
    EXPECT_TRUE(binding.cores[1].cpus.empty());
    EXPECT_EQ(binding.cores[1].physical_cores, 1);
  }
}

// As job templates of sites have them.
TEST(HostBinding, AnOrderOfAllGpusHoldsInAShare) {
  const HostShare share{.devices = {"GPU-1", "GPU-2"}};
  const Pinning pinning{.gpu_bind = GpuBind::kOne, .gpu_order = GpuOrder::kList, .gpu_list = {3, 2, 1, 0}};
  const auto binding = bound(four_gpus(), {{.rank = 0}, {.rank = 1}}, pinning, &share);
  EXPECT_EQ(seen(binding, 0), "CUDA_VISIBLE_DEVICES=GPU-2");
  EXPECT_EQ(seen(binding, 1), "CUDA_VISIBLE_DEVICES=GPU-1");
}

// No rank is started without a mask where others of the host have one.
TEST(HostBinding, WhoIsLeftWithoutAGpuIsRefused) {
  const std::vector<RankPlace> places = {{.rank = 0, .gpus = {"GPU-0"}}, {.rank = 1, .gpus = {"GPU-1"}}, {.rank = 2}};
  const HostShare share{.devices = {"GPU-0", "GPU-1"}};
  const auto binding = bind_host(four_gpus(), requests(places), {}, {}, &share);
  EXPECT_EQ(binding.status().code(), base::Code::kFailedPrecondition);
  EXPECT_THAT(binding.status().message(), HasSubstr("the job has none of the 4 GPUs there: other jobs have them"));
  const HostShare larger{.devices = {"GPU-0", "GPU-1", "GPU-3"}};
  EXPECT_EQ(seen(bound(four_gpus(), places, {}, &larger), 2), "CUDA_VISIBLE_DEVICES=GPU-3");
  EXPECT_EQ(seen(bound(four_gpus(), places, {.gpu_bind = GpuBind::kNone}, &share), 2), "") << "it wants none";
  // Nor where there is no share, and its own ranks have all.
  const std::vector<RankPlace> of_two = {{.rank = 0, .gpus = {"GPU-0", "GPU-1", "GPU-2", "GPU-3"}}, {.rank = 1}};
  const auto alone = bind_host(four_gpus(), requests(of_two), {}, {});
  EXPECT_EQ(alone.status().code(), base::Code::kInvalidArgument);
  EXPECT_THAT(alone.status().message(), HasSubstr("placed on all 4 GPUs, so no GPU is left for the other ranks"));
}

TEST(HostBinding, WhoNamesHisGpusHimselfIsNotLeftWithout) {
  const std::vector<RankPlace> places = {{.rank = 0, .gpus = {"GPU-0"}}, {.rank = 1}};
  const GpuMasks own{.cuda = "0"};
  const HostShare share{.devices = {"GPU-0"}};
  std::vector<RankRequest> both = requests(places);
  both[1].masks = &own;
  const auto binding = bind_host(four_gpus(), both, {}, {}, &share);
  ASSERT_TRUE(binding.ok()) << binding.status();
  EXPECT_THAT(binding->gpus[1].devices, ElementsAre("GPU-0"));
}

// Its number is CUDA's own: the GPU that another rank was placed on may be that one.
TEST(HostBinding, WhatMayBeAChosenGpuIsNotDealt) {
  NodeShape node = four_gpus();
  node.gpus[0].model = "another";
  const std::vector<RankPlace> places = {{.rank = 0, .gpus = {"GPU-2"}}, {.rank = 1}};
  const auto binding = bind_host(node, requests(places), {}, {.cuda = "0,1"});
  EXPECT_EQ(binding.status().code(), base::Code::kInvalidArgument);
}

TEST(HostBinding, GpusAreDealtNearChosenCores) {
  const std::vector<RankPlace> places = {{.rank = 0, .cpus = {6, 7}}, {.rank = 1, .cpus = {0, 1}}, {.rank = 2}};
  const auto binding = bound(four_gpus(), places, {.gpu_bind = GpuBind::kOne});
  EXPECT_EQ(seen(binding, 0), "CUDA_VISIBLE_DEVICES=GPU-2");
  EXPECT_EQ(seen(binding, 1), "CUDA_VISIBLE_DEVICES=GPU-0");
  EXPECT_THAT(binding.cores[0].cpus, ElementsAre(6, 7));
  EXPECT_EQ(binding.dealt_ranks, 3);
  // Also those that are not of the share, and with the order that is asked for.
  const HostShare share{.cpus = {2, 3}, .devices = {"GPU-0", "GPU-1", "GPU-2"}};
  EXPECT_EQ(seen(bound(four_gpus(), places, {.gpu_bind = GpuBind::kOne}, &share), 0), "CUDA_VISIBLE_DEVICES=GPU-2");
  EXPECT_EQ(seen(bound(four_gpus(), places, {.gpu_bind = GpuBind::kOne, .gpu_order = GpuOrder::kReverse}), 0),
            "CUDA_VISIBLE_DEVICES=GPU-3");
}

// As partitions of AMD's have it.
TEST(HostBinding, ANameOfSeveralPartsIsRefused) {
  NodeShape node;
  for (int i = 0; i < 4; ++i) {
    node.gpus.push_back({.vendor = GpuVendor::kAmd,
                         .index = i,
                         .uuid = i < 2 ? "GPU-a" : "GPU-b",
                         .pci = i < 2 ? "0000:01:00.0" : "0000:02:00.0"});
  }
  for (const char* const name : {"GPU-a", "0000:02:00.0"}) {
    const auto binding = bind_host(node, requests({{.rank = 5, .gpus = {name}}}), {}, {});
    EXPECT_EQ(binding.status().code(), base::Code::kInvalidArgument);
    EXPECT_EQ(binding.status().message(),
              fmt::format("rank 5 is placed on GPU {}, but 2 parts of a GPU have that name there and cannot be "
                          "distinguished: name no GPU for this rank, and it gets one",
                          name));
  }
  EXPECT_EQ(seen(bound(node, {{.rank = 0}, {.rank = 1}}, {.gpu_bind = GpuBind::kOne}), 1), "ROCR_VISIBLE_DEVICES=1");
}

// What each of these ranks sees whose roles say it by these variables.
std::vector<std::string> seen_by_roles(const NodeShape& node, const std::vector<std::vector<std::string>>& environments,
                                       const Pinning& pinning = {}) {
  std::vector<Role> roles;
  std::vector<std::size_t> host_of_rank;
  for (const auto& environment : environments) {
    Role& role = roles.emplace_back();
    role.environment = environment;
    host_of_rank.push_back(0);
  }
  const std::vector<RoleMasks> masks = role_masks(roles, {});
  const auto binding =
      bind_host(node, requests_on({}, masks, place_as_listed({{.name = "n1"}}, host_of_rank).hosts.at(0)), pinning, {});
  EXPECT_TRUE(binding.ok()) << binding.status();
  std::vector<std::string> seen;
  if (!binding.ok()) return seen;
  for (const RankGpus& gpus : binding->gpus) seen.push_back(base::join(gpus.devices, ","));
  return seen;
}

TEST(HostBinding, ARoleHasTheGpusThatItNames) {
  const Pinning one{.gpu_bind = GpuBind::kOne};
  EXPECT_THAT(seen_by_roles(four_gpus(), {{}, {"CUDA_VISIBLE_DEVICES=2,GPU-0"}, {"A=b"}}, one),
              ElementsAre("GPU-1", "GPU-2,GPU-0", "GPU-3"))
      << "nobody else is dealt these";
  EXPECT_THAT(seen_by_roles(four_gpus(), {{"CUDA_VISIBLE_DEVICES="}, {}}, one), ElementsAre("", "GPU-2"));
  EXPECT_THAT(seen_by_roles(four_gpus(), {{"ROCR_VISIBLE_DEVICES=3"}, {}}, one), ElementsAre("GPU-0", "GPU-2"))
      << "of another vendor";
  EXPECT_THAT(seen_by_roles(four_gpus(), {{"CUDA_VISIBLE_DEVICES=3"}, {}}, {.gpu_bind = GpuBind::kNone}),
              ElementsAre("", ""))
      << "nothing is bound";
  NodeShape amd = four_gpus();
  for (GpuShape& gpu : amd.gpus) gpu.vendor = GpuVendor::kAmd;
  EXPECT_THAT(seen_by_roles(amd, {{"ROCR_VISIBLE_DEVICES=3"}, {"HIP_VISIBLE_DEVICES=0"}}, one),
              ElementsAre("amd:3", "amd:2"));
}

// Parameter servers beside workers.
TEST(HostBinding, WhoHidesGpusIsDealtNone) {
  NodeShape two = four_gpus();
  std::erase_if(two.gpus, [](const GpuShape& gpu) { return gpu.index > 1; });
  const Pinning one{.gpu_bind = GpuBind::kOne};
  EXPECT_THAT(seen_by_roles(two, {{"CUDA_VISIBLE_DEVICES="}, {"CUDA_VISIBLE_DEVICES=-1"}, {}, {}}, one),
              ElementsAre("", "", "GPU-0", "GPU-1"));
  EXPECT_THAT(seen_by_roles(two, {{"CUDA_VISIBLE_DEVICES="}, {"CUDA_VISIBLE_DEVICES="}}, one), ElementsAre("", ""));
  NodeShape amd = two;
  for (GpuShape& gpu : amd.gpus) gpu.vendor = GpuVendor::kAmd;
  EXPECT_THAT(seen_by_roles(amd, {{"HIP_VISIBLE_DEVICES=-1"}, {}, {"CUDA_VISIBLE_DEVICES=-1"}, {}}, one),
              ElementsAre("", "amd:0", "", "amd:1"));
}

TEST(HostBinding, WhatARoleNamesIsNobodyElsesWhereThereIsAnother) {
  NodeShape two = four_gpus();
  two.gpus.resize(2);
  const Pinning one{.gpu_bind = GpuBind::kOne};
  EXPECT_THAT(seen_by_roles(two, {{"CUDA_VISIBLE_DEVICES=1"}, {}}, one), ElementsAre("GPU-1", "GPU-0"));
  EXPECT_THAT(seen_by_roles(two, {{}, {"CUDA_VISIBLE_DEVICES=0"}}, one), ElementsAre("GPU-1", "GPU-0"));
  EXPECT_THAT(seen_by_roles(two, {{}, {"CUDA_VISIBLE_DEVICES=0"}, {}}, one), ElementsAre("GPU-0", "GPU-0", "GPU-1"));
}

// Scripts take number local_rank of the list that all see.
TEST(HostBinding, UnderOrderNumbersOfLaterRanksStay) {
  const GpuMasks none{.cuda = ""};
  const std::vector<RankRequest> first = {{.masks = &none}, {}, {}};
  const auto binding = bind_host(four_gpus(), first, {}, {});
  ASSERT_TRUE(binding.ok()) << binding.status();
  EXPECT_EQ(binding->dealt_ranks, 3);
  EXPECT_EQ(seen(*binding, 0), "");
  EXPECT_EQ(seen(*binding, 1), seen(*binding, 2));
  for (const std::size_t rank : {1u, 2u}) {
    const std::string own = binding->gpus[rank].devices.at(0);
    const std::string list = seen(*binding, rank).substr(std::string_view("CUDA_VISIBLE_DEVICES=").size());
    EXPECT_EQ(base::split(list, ',').at(rank), own);
  }
  const std::vector<RankRequest> last = {{}, {}, {.masks = &none}};
  const auto without = bind_host(four_gpus(), last, {}, {});
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(without->dealt_ranks, 2);
  EXPECT_EQ(are_dealt(four_gpus(), last, {}, {}), (std::vector<bool>{true, true, false}));
}

TEST(HostBinding, ARoleThatNamesItsGpusIsGivenNoVariables) {
  const GpuMasks own{.cuda = "1"};
  const RankPlace place{.rank = 0, .host = "n1", .cpus = {}, .gpus = {"GPU-3"}};
  const std::vector<RankRequest> requests = {{.masks = &own}, {.place = &place, .masks = &own}};
  const auto binding = bind_host(four_gpus(), requests, {.gpu_bind = GpuBind::kOne}, {});
  ASSERT_TRUE(binding.ok()) << binding.status();
  EXPECT_EQ(seen(*binding, 0), "");
  EXPECT_EQ(binding->gpus[0].index, 1);
  EXPECT_EQ(seen(*binding, 1), "CUDA_VISIBLE_DEVICES=GPU-3") << "where it is placed goes before that";
}

}  // namespace
}  // namespace muster::model::host_binding_test
