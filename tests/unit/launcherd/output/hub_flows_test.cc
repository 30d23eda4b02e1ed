#include "launcherd/output/hub_flows.h"

#include <utility>

#include <gtest/gtest.h>

#include "proto/peer_names.h"

namespace muster::launcherd::hub_flows_test {
namespace {

using base::Code;
using proto::OutputKind;

// Records all calls in their order.
class NotingSink final : public OutputSink {
 public:
  base::Status write(int rank, proto::OutputStream, std::string_view bytes, std::uint8_t) override {
    calls += fmt::format("write {} {} ", rank, bytes);
    return answer;
  }
  base::Status end_rank(int rank) override {
    calls += fmt::format("end {} ", rank);
    return base::ok_status();
  }
  base::Status lost(std::uint64_t bytes, const std::string& host) override {
    calls += fmt::format("lost {} of {} ", bytes, host);
    return base::ok_status();
  }
  base::Status end_agent(int agent) override {
    calls += fmt::format("finish {} ", agent);
    return base::ok_status();
  }
  base::Status flush() override {
    calls += "flush ";
    return base::ok_status();
  }

  std::string calls;
  base::Status answer;
};

class HubFlowsTest : public ::testing::Test {
 protected:
  HubFlowsTest() {
    OutputHubEvents events;
    events.on_rank_ended = [this](int rank, std::uint64_t out, std::uint64_t err) {
      sink_.calls += fmt::format("ended {} {} {} ", rank, out, err);
    };
    events.on_agent_complete = [this](int agent) { sink_.calls += fmt::format("complete {} ", agent); };
    events.on_agent_cut = [this](int agent) { sink_.calls += fmt::format("cut {} ", agent); };
    events.on_error = [this](const base::Status& status) { sink_.calls += status.message() + " "; };
    flows_.add_job("job", &sink_, std::move(events));
  }

  // Expects agent 4 with ranks 7 and 8.
  HubFlows::Flow* expect(std::uint64_t last_delivered = 0) {
    flows_.expect("job", {.agent = 4, .secret = {}, .ranks = {7, 8}, .last_delivered = last_delivered});
    return flows_.find(flows_.of_agent("job", 4));
  }
  base::Status take(HubFlows::Flow* flow, std::uint64_t sequence, OutputKind kind, int rank,
                    std::string_view payload = {}) {
    return flows_.handle(flow,
                         {{.kind = kind, .rank = static_cast<std::uint32_t>(rank), .sequence = sequence}, payload});
  }
  base::Status end(HubFlows::Flow* flow, std::uint64_t sequence, int rank) {
    const auto counts = proto::encode_end_counts({.stdout_bytes = 5, .stderr_bytes = 0});
    return take(flow, sequence, OutputKind::kEnd, rank, {counts.data(), counts.size()});
  }
  std::string calls() { return std::exchange(sink_.calls, {}); }

  NotingSink sink_;
  HubFlows flows_;
};

TEST_F(HubFlowsTest, EachFrameIsTakenOnceAndInOrder) {
  HubFlows::Flow* const flow = expect();
  ASSERT_NE(flow, nullptr);
  EXPECT_EQ(flows_.of_identity(proto::output_identity("job", 4)), flows_.of_agent("job", 4));
  EXPECT_TRUE(take(flow, 1, OutputKind::kData, 7, "a").ok());
  EXPECT_TRUE(take(flow, 1, OutputKind::kData, 7, "a").ok());  // the agent sends it again after a cut
  EXPECT_TRUE(take(flow, 2, OutputKind::kData, 8, "b").ok());
  EXPECT_EQ(take(flow, 4, OutputKind::kData, 8, "d").code(), Code::kDataLoss);
  EXPECT_EQ(flow->last_delivered, 2U);
  EXPECT_EQ(calls(), "write 7 a write 8 b ");
}

TEST_F(HubFlowsTest, ACutIsToldAfterWhatHasComeUnlessThatIsAll) {
  HubFlows::Flow* const flow = expect();
  EXPECT_TRUE(take(flow, 1, OutputKind::kData, 7, "a").ok());
  EXPECT_TRUE(end(flow, 2, 7).ok());
  HubFlows::cut(flow);
  flows_.settle(false);
  EXPECT_EQ(calls(), "write 7 a end 7 flush ended 7 5 0 cut 4 ");
  EXPECT_TRUE(end(flow, 3, 8).ok());
  HubFlows::cut(flow);
  flows_.settle(false);
  EXPECT_EQ(calls(), "end 8 flush ended 8 5 0 complete 4 ");
}

class HubGapTest : public HubFlowsTest {
 protected:
  // The launcher already has three frames and 10 bytes.
  HubGapTest() {
    flows_.expect("job", {.agent = 4,
                          .secret = {},
                          .ranks = {7, 8},
                          .host = "n4",
                          .last_delivered = 3,
                          .delivered_bytes = 10,
                          .counters = {}});
    flow_ = flows_.find(flows_.of_agent("job", 4));
  }
  base::Status gap(std::uint64_t sequence, std::uint64_t bytes) {
    const auto payload = proto::encode_gap_bytes(bytes);
    return take(flow_, sequence, OutputKind::kGap, 0, {payload.data(), payload.size()});
  }
  HubFlows::Flow* flow_;
};

TEST_F(HubGapTest, SaysWhatIsLostAndGoesOnBehindIt) {
  EXPECT_TRUE(gap(9, 110).ok());
  EXPECT_EQ(flow_->last_delivered, 9U);
  EXPECT_TRUE(gap(9, 110).ok());  // sent again after a cut
  EXPECT_TRUE(take(flow_, 10, OutputKind::kData, 7, "abc").ok());
  EXPECT_TRUE(gap(12, 115).ok());  // 113 of the 115 bytes are accounted for
  EXPECT_EQ(calls(), "lost 100 of n4 write 7 abc lost 2 of n4 ");
  EXPECT_EQ(take(flow_, 14, OutputKind::kData, 7, "d").code(), Code::kDataLoss);
}

TEST_F(HubGapTest, AGapWithoutBytesIsPassedOver) {
  EXPECT_TRUE(gap(4, 10).ok());
  EXPECT_TRUE(gap(5, 2).ok());  // impossible, so nothing is lost
  EXPECT_EQ(flow_->last_delivered, 5U);
  EXPECT_EQ(calls(), "");
}

TEST_F(HubGapTest, EndsThatAreLostAreMadeGoodByFinish) {
  EXPECT_TRUE(gap(9, 10).ok());
  EXPECT_TRUE(take(flow_, 10, OutputKind::kFinish, 0).ok());
  flows_.settle(true);
  EXPECT_EQ(calls(), "end 7 end 8 finish 4 flush complete 4 ");
}

TEST_F(HubFlowsTest, TheOwnerHearsOfAnEndAfterTheFlush) {
  HubFlows::Flow* const flow = expect();
  EXPECT_TRUE(take(flow, 1, OutputKind::kData, 7, "a").ok());
  EXPECT_TRUE(end(flow, 2, 7).ok());
  flows_.settle(false);
  EXPECT_EQ(calls(), "write 7 a end 7 flush ended 7 5 0 ");
  EXPECT_TRUE(end(flow, 3, 8).ok());
  EXPECT_TRUE(take(flow, 4, OutputKind::kFinish, 0).ok());
  flows_.settle(true);
  flows_.settle(true);
  EXPECT_EQ(calls(), "end 8 finish 4 flush ended 8 5 0 complete 4 ");  // reports completion once
}

TEST_F(HubFlowsTest, WhatOnlyWroteIsFlushedWhenNothingMoreComes) {
  EXPECT_TRUE(take(expect(), 1, OutputKind::kData, 7, "a").ok());
  flows_.settle(false);
  EXPECT_EQ(calls(), "write 7 a ");
  flows_.settle(true);
  EXPECT_EQ(calls(), "flush ");
}

TEST_F(HubFlowsTest, RanksOfOthersAndFramesOfTheLauncherAreRefused) {
  HubFlows::Flow* const flow = expect();
  EXPECT_EQ(take(flow, 1, OutputKind::kData, 6, "stolen").code(), Code::kPermissionDenied);
  EXPECT_TRUE(end(flow, 2, 7).ok());
  EXPECT_EQ(take(flow, 3, OutputKind::kData, 7, "late").code(), Code::kPermissionDenied);
  EXPECT_EQ(take(flow, 4, OutputKind::kAck, 0).code(), Code::kInvalidArgument);
  EXPECT_EQ(calls(), "end 7 ");
}

TEST_F(HubFlowsTest, AFailedSinkIsTheJobsProblemAndNotTheAgents) {
  sink_.answer = base::error(Code::kResourceExhausted, "full");
  EXPECT_TRUE(take(expect(), 1, OutputKind::kData, 7, "a").ok());
  EXPECT_EQ(calls(), "write 7 a full ");
}

TEST_F(HubFlowsTest, AnAgentOfAnotherLaunchersTimeGoesOnBehindItsLastFrame) {
  HubFlows::Flow* const flow = expect(9);
  EXPECT_TRUE(take(flow, 9, OutputKind::kData, 7, "old").ok());
  EXPECT_TRUE(take(flow, 10, OutputKind::kData, 7, "new").ok());
  EXPECT_EQ(calls(), "write 7 new ");
  flows_.expect("job", {.agent = 5, .secret = {}, .ranks = {}, .last_delivered = 3});
  flows_.settle(true);
  EXPECT_EQ(calls(), "flush complete 5 ");  // the sink had all its output
}

TEST_F(HubFlowsTest, WhatIsErasedOrUnknownIsNotFound) {
  expect();
  EXPECT_EQ(flows_.of_job("job").size(), 1U);
  flows_.erase(flows_.of_agent("job", 4));
  EXPECT_EQ(flows_.of_agent("job", 4), HubFlows::kNone);
  EXPECT_EQ(flows_.of_identity(proto::output_identity("job", 4)), HubFlows::kNone);
  flows_.remove_job("job");
  flows_.expect("job", {.agent = 4, .secret = {}, .ranks = {7}, .last_delivered = 0});
  EXPECT_TRUE(flows_.of_job("job").empty());
  EXPECT_EQ(flows_.find(HubFlows::kNone), nullptr);
}

}  // namespace
}  // namespace muster::launcherd::hub_flows_test
