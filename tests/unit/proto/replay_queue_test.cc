#include "proto/replay_queue.h"

#include <gtest/gtest.h>

#include "proto/muster/v1/agent.pb.h"

namespace muster::proto::replay_queue_test {
namespace {

using Queue = ReplayQueue<v1::AgentMessage>;

v1::AgentMessage notice(const std::string& text) {
  v1::AgentMessage message;
  message.mutable_notice()->set_text(text);
  return message;
}

TEST(ReplayQueue, NumbersFromOneAndKeepsUntilAcknowledged) {
  Queue queue;
  EXPECT_EQ(queue.push(notice("a")).sequence(), 1u);
  EXPECT_EQ(queue.push(notice("b")).sequence(), 2u);
  EXPECT_EQ(queue.push(notice("c")).sequence(), 3u);
  EXPECT_EQ(queue.last_acknowledged(), 0u);
  queue.acknowledged(2);
  EXPECT_EQ(queue.last_acknowledged(), 2u);
  ASSERT_EQ(queue.pending().size(), 1u);
  EXPECT_EQ(queue.pending().front().notice().text(), "c");
  queue.acknowledged(1);  // late
  EXPECT_EQ(queue.pending().size(), 1u);
  queue.acknowledged(99);  // more than was ever sent: nothing is left, nothing breaks
  EXPECT_TRUE(queue.pending().empty());
  EXPECT_EQ(queue.last_acknowledged(), 3u);
}

TEST(ReplayQueue, ArrivalsOnceInOrder) {
  Queue queue;
  EXPECT_EQ(queue.arrived(0), Queue::Arrival::kNew);
  EXPECT_EQ(queue.arrived(1), Queue::Arrival::kNew);
  EXPECT_EQ(queue.arrived(1), Queue::Arrival::kDuplicate);
  EXPECT_EQ(queue.arrived(3), Queue::Arrival::kGap);
  EXPECT_EQ(queue.arrived(2), Queue::Arrival::kNew);
  EXPECT_EQ(queue.arrived(0), Queue::Arrival::kNew);  // unnumbered are never counted
  EXPECT_EQ(queue.last_received(), 2u);
}

}  // namespace
}  // namespace muster::proto::replay_queue_test
