#include "launcherd/daemon/recovery.h"

#include <vector>

#include <gtest/gtest.h>

#include "proto/muster/v1/pool.pb.h"

namespace muster::launcherd::recovery_test {
namespace {

Recovery recovery() {
  Recovery recovery;
  recovery.placement = model::place_as_listed({{.name = "n1"}, {.name = "n2"}, {.name = "n3"}}, {0, 1, 1, 2});
  recovery.placement.hosts[0].share =
      model::HostShare{.cpus = {0, 1, 2, 8}, .devices = {"GPU-a", "intel:0.1"}, .is_open = true};
  recovery.placement.hosts[1].share = model::HostShare{.is_crowded = true};
  return recovery;
}

TEST(Recovery, SharesOfHostsComeBack) {
  const auto back = recovery_of(recovery_bytes(recovery()));
  ASSERT_TRUE(back.ok()) << back.status();
  ASSERT_EQ(back->placement.hosts.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(back->placement.hosts[i].share, recovery().placement.hosts[i].share) << i;
  }
  EXPECT_FALSE(back->placement.hosts[2].share) << "not decided yet";
}

TEST(Recovery, OfALauncherdThatKnewOfNoSharesHasNone) {
  v1::JobRecovery message;
  ASSERT_TRUE(message.ParseFromString(recovery_bytes(recovery())));
  message.clear_shares();
  const auto back = recovery_of(message.SerializeAsString());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_FALSE(back->placement.hosts[0].share);
}

TEST(Recovery, WhatWasAskedOfTheJobComesBack) {
  Recovery stopped = recovery();
  stopped.stop = StopCause::kTerminate;
  stopped.stops_at_once = true;
  stopped.stop_reason = "killed";
  const auto back = recovery_of(recovery_bytes(stopped));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->stop, StopCause::kTerminate);
  EXPECT_TRUE(back->stops_at_once);
  EXPECT_EQ(back->stop_reason, "killed");
}

TEST(Recovery, HostsThatAreTheSameComeBack) {
  Recovery merged = recovery();
  merged.first_of = {0, 1, 0};
  const auto back = recovery_of(recovery_bytes(merged));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->first_of, merged.first_of);
  EXPECT_TRUE(recovery_of(recovery_bytes(recovery()))->first_of.empty()) << "as an older launcherd has stored it";
}

TEST(Recovery, HostsThatCannotBeTheSameAreRefused) {
  for (const std::vector<int>& first_of : std::vector<std::vector<int>>{{0, 1}, {0, 2, 2}, {0, 0, 1}, {0, 1, -1}}) {
    Recovery wrong = recovery();
    wrong.first_of = first_of;
    EXPECT_EQ(recovery_of(recovery_bytes(wrong)).status().code(), base::Code::kDataLoss);
  }
}

TEST(Recovery, WhatIsNoneIsTold) {
  v1::JobRecovery whole;
  ASSERT_TRUE(whole.ParseFromString(recovery_bytes(recovery())));
  v1::JobRecovery without_cores = whole;
  without_cores.mutable_shares(0)->set_cpus("a-b");
  EXPECT_EQ(recovery_of(without_cores.SerializeAsString()).status().code(), base::Code::kDataLoss);
  v1::JobRecovery without_one = whole;
  without_one.mutable_shares()->RemoveLast();
  EXPECT_EQ(recovery_of(without_one.SerializeAsString()).status().code(), base::Code::kDataLoss);
}

TEST(Recovery, GenerationsComeBack) {
  Recovery waits = recovery();
  ResumedGeneration& generation = waits.generation.emplace();
  generation.state = {.counted = 2,
                      .wanted = 6,
                      .failed = {{.name = "n7", .reason = "its agent ended"},
                                 {"n8", "killed", base::WallTime(std::chrono::milliseconds(90'500))}},
                      .last_failed = "n1",
                      .in_a_row = 1};
  generation.resize_to = 8;
  generation.resize_hosts = {{.name = "n9", .slots = 4}};
  generation.resize_reason = {ResizeCause::kPreemption, "preemption: gives 2 slots back"};
  generation.wait = GenerationWait{.end = {.bad_hosts = {"n3"},
                                           .has_progress = true,
                                           .is_resize = true,
                                           .at = base::WallTime(std::chrono::seconds(60))},
                                   .reason = "its agent ended",
                                   .unclean = {"n3"},
                                   .failed = {{.name = "n3", .reason = "killed"}}};
  generation.last_change = "generation 1: 4 → 3 ranks";
  const auto back = recovery_of(recovery_bytes(waits));
  ASSERT_TRUE(back.ok()) << back.status();
  ASSERT_TRUE(back->generation.has_value());
  EXPECT_EQ(back->generation->state.counted, 2);
  EXPECT_EQ(back->generation->state.wanted, 6);
  ASSERT_EQ(back->generation->state.failed.size(), 2U);
  EXPECT_EQ(back->generation->state.failed[0].name, "n7");
  EXPECT_EQ(back->generation->state.failed[0].reason, "its agent ended");
  EXPECT_FALSE(back->generation->state.failed[0].usable_from);
  EXPECT_EQ(back->generation->state.failed[1].usable_from, base::WallTime(std::chrono::milliseconds(90'500)));
  EXPECT_EQ(back->generation->state.last_failed, "n1");
  EXPECT_EQ(back->generation->state.in_a_row, 1);
  EXPECT_EQ(back->generation->resize_to, 8);
  EXPECT_EQ(back->generation->last_change, generation.last_change);
  EXPECT_EQ(back->generation->resize_hosts, generation.resize_hosts);
  EXPECT_EQ(back->generation->resize_reason.cause, ResizeCause::kPreemption);
  EXPECT_EQ(back->generation->resize_reason.text, "preemption: gives 2 slots back");
  ASSERT_TRUE(back->generation->wait.has_value());
  EXPECT_EQ(back->generation->wait->end.bad_hosts, std::vector<std::string>{"n3"});
  EXPECT_TRUE(back->generation->wait->end.has_progress);
  EXPECT_TRUE(back->generation->wait->end.is_resize);
  EXPECT_EQ(back->generation->wait->end.at, base::WallTime(std::chrono::seconds(60)));
  ASSERT_EQ(back->generation->wait->failed.size(), 1U);
  EXPECT_EQ(back->generation->wait->failed[0].reason, "killed");
  EXPECT_EQ(back->generation->wait->reason, "its agent ended");
  EXPECT_EQ(back->generation->wait->unclean, std::vector<std::string>{"n3"});
  EXPECT_FALSE(recovery_of(recovery_bytes(recovery()))->generation) << "as an older launcherd has stored it";
}

TEST(Recovery, AGenerationThatCannotBeIsCorrupt) {
  v1::JobRecovery message;
  ASSERT_TRUE(message.ParseFromString(recovery_bytes(recovery())));
  message.mutable_generation()->set_wanted(0);
  EXPECT_EQ(recovery_of(message.SerializeAsString()).status().code(), base::Code::kDataLoss);
  message.mutable_generation()->set_wanted(4);
  message.mutable_generation()->add_resize_hosts("two words");
  EXPECT_EQ(recovery_of(message.SerializeAsString()).status().code(), base::Code::kDataLoss);
}

}  // namespace
}  // namespace muster::launcherd::recovery_test
