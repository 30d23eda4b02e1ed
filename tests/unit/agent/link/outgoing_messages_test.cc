#include "agent/link/outgoing_messages.h"

#include <gtest/gtest.h>

namespace muster::agent::outgoing_messages_test {
namespace {

v1::AgentMessage notice(const std::string& job, const std::string& text) {
  v1::AgentMessage message;
  message.set_job_id(job);
  message.mutable_notice()->set_text(text);
  return message;
}

v1::AgentMessage rank_exited(int rank) {
  v1::AgentMessage message;
  message.mutable_rank_exited()->set_rank(rank);
  return message;
}

// A user's program may cause endless lines while no launcher is connected.
TEST(OutgoingMessagesTest, LeavesOutNoticesWhileTooMuchWaits) {
  OutgoingMessages messages(10'000);
  const std::string text(1'000, 'x');
  for (int i = 0; i < 1'000; ++i) (void)messages.push(notice("a", text));
  EXPECT_LE(messages.pending().size(), 10U);
  EXPECT_EQ(messages.push(notice("a", text)), nullptr);
  EXPECT_TRUE(messages.take_drop_notices().empty()) << "there is no room yet";
}

TEST(OutgoingMessagesTest, NeverLeavesOutHowRanksEnd) {
  OutgoingMessages messages(100);
  (void)messages.push(notice("a", std::string(1'000, 'x')));
  for (int rank = 0; rank < 1'000; ++rank) {
    const v1::AgentMessage* const numbered = messages.push(rank_exited(rank));
    ASSERT_NE(numbered, nullptr);
    EXPECT_EQ(numbered->sequence(), static_cast<std::uint64_t>(rank) + 2);
  }
  EXPECT_EQ(messages.pending().size(), 1'001U);
}

TEST(OutgoingMessagesTest, SaysHowManyWereLeftOutOnceThereIsRoom) {
  OutgoingMessages messages(100);
  (void)messages.push(notice("a", std::string(1'000, 'x')));
  for (const char* const job : {"a", "b", "b"}) EXPECT_EQ(messages.push(notice(job, "line")), nullptr);
  messages.acknowledged(1);
  EXPECT_EQ(messages.last_acknowledged(), 1U);
  const auto notices = messages.take_drop_notices();
  ASSERT_EQ(notices.size(), 2U);
  EXPECT_EQ(notices[0].job_id(), "a");
  EXPECT_EQ(notices[0].notice().text(), "lines that the agent dropped because the launcher did not read them: 1");
  EXPECT_EQ(notices[1].job_id(), "b");
  EXPECT_TRUE(messages.take_drop_notices().empty());
  EXPECT_NE(messages.push(notice("a", "line")), nullptr);
}

}  // namespace
}  // namespace muster::agent::outgoing_messages_test
