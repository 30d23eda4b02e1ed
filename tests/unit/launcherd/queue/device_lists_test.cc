#include "launcherd/queue/device_lists.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcherd/queue/fit.h"
#include "launcherd/queue/why_not.h"

namespace muster::launcherd::device_lists_test {
namespace {

JobNeed need(int np, int gpus_per_rank) {
  JobNeed need;
  need.request.np = np;
  need.share.pinning = {.gpu_bind = model::GpuBind::kOne, .gpus_per_rank = gpus_per_rank};
  return need;
}

std::vector<SlotHost> two_hosts() {
  model::NodeShape node;
  for (int i = 0; i < 2; ++i) {
    node.cores.push_back({.cpus = {i}});
    node.gpus.push_back({.index = i, .uuid = "GPU-" + std::to_string(i)});
  }
  std::vector<SlotHost> hosts;
  for (const char* const name : {"n1", "n2"}) {
    hosts.push_back({.host = {.name = name}, .slots = 2, .is_shared = true});
    hosts.back().shape = std::make_shared<const model::NodeShape>(node);
  }
  return hosts;
}

TEST(DeviceLists, AreThoseOfAWish) {
  DeviceLists lists;
  DeviceLists::ByHost* const of_one = &lists.of(need(1, 1).share);
  EXPECT_EQ(&lists.of(need(7, 1).share), of_one) << "how many ranks there are does not matter";
  EXPECT_NE(&lists.of(need(1, 2).share), of_one);
  ShareRequest masked = need(1, 1).share;
  masked.masks.cuda = "0";
  EXPECT_NE(&lists.of(masked), of_one);
}

// Jobs with the same request and different sizes share one look-up per host.
TEST(DeviceLists, WhatOneJobHasLookedUpTheNextDoesNot) {
  const std::vector<SlotHost> hosts = two_hosts();
  DeviceLists lists;
  EXPECT_TRUE(fit(need(3, 1), hosts, &lists));
  DeviceLists::ByHost& known = lists.of(need(3, 1).share);
  ASSERT_EQ(known.size(), 2u);
  EXPECT_THAT(known.at(hosts[1].shape.get()), ::testing::Optional(::testing::ElementsAre("GPU-0", "GPU-1")));
  // A second look-up would restore what this loop removes.
  for (auto& [shape, devices] : known) devices->pop_back();
  EXPECT_FALSE(fit(need(3, 1), hosts, &lists));
  EXPECT_EQ(why_not(need(3, 1), hosts, &lists), "needs 3 GPUs, 2 are free on n1 and n2");
  EXPECT_TRUE(fit(need(3, 1), hosts));
}

}  // namespace
}  // namespace muster::launcherd::device_lists_test
