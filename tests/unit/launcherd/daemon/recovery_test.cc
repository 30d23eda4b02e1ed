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

}  // namespace
}  // namespace muster::launcherd::recovery_test
