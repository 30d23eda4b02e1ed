#include "rendezvous/host_meetings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <numeric>

namespace muster::rendezvous::host_meetings_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Hosts of a tree with links that the test can cut. A message is delivered by deliver().
class HostMeetingsTest : public ::testing::Test {
 protected:
  struct Message {
    int from = 0;
    int to = 0;
    std::string name;
    std::uint64_t number = 0;
    HorovodValue part;
  };

  void make(int hosts, int fanout, StoreLimits limits = {}) {
    tree_ = {.hosts = hosts, .fanout = fanout};
    for (int host = 0; host < hosts; ++host) {
      const auto send = [this, host](int to, std::string_view name, std::uint64_t number, HorovodValue part) {
        ++sent_[{host, to}];
        if (!cut_.contains(host) && !cut_.contains(to)) {
          messages_.push_back({host, to, std::string(name), number, std::move(part)});
        }
      };
      hosts_.push_back(std::make_unique<HostMeetings>(
          tree_, host,
          HostMeetings::Links{
              .to_parent = [this, host, send](auto name, auto number,
                                              auto part) { send(tree_.parent(host), name, number, part); },
              .to_child = send},
          limits));
    }
  }

  base::Status handle(const Message& message) {
    HostMeetings& at = *hosts_[static_cast<std::size_t>(message.to)];
    if (message.from < message.to) return at.from_parent(message.name, message.number, *message.part);
    return at.from_child(message.name, message.number, *message.part, [&](int child) {
      EXPECT_EQ(child, message.from);
      return base::ok_status();
    });
  }
  void deliver() {
    while (!messages_.empty()) {
      const Message message = messages_.front();
      messages_.pop_front();
      const base::Status status = handle(message);
      EXPECT_TRUE(status.ok()) << status;
    }
  }
  base::Status enter(int host, std::vector<int> members, std::string blob, std::uint64_t number = 1) {
    return hosts_[static_cast<std::size_t>(host)]->enter("f", number, members, std::move(blob),
                                                         [this, host](base::Result<HostMeetings::Blobs> blobs) {
                                                           ++answers_;
                                                           results_[host] = *blobs;
                                                         });
  }
  std::vector<int> all() const {
    std::vector<int> hosts(static_cast<std::size_t>(tree_.hosts));
    std::iota(hosts.begin(), hosts.end(), 0);
    return hosts;
  }
  HostMeetings& host(int index) { return *hosts_[static_cast<std::size_t>(index)]; }

  HostTree tree_;
  std::vector<std::unique_ptr<HostMeetings>> hosts_;
  std::deque<Message> messages_;
  std::map<std::pair<int, int>, int> sent_;
  std::set<int> cut_;
  std::map<int, HostMeetings::Blobs> results_;
  int answers_ = 0;
};

TEST_F(HostMeetingsTest, AllHostsGetAllBlobsInOrder) {
  make(7, 2);
  for (int host = 6; host >= 0; --host) {
    EXPECT_EQ(answers_, 0);
    ASSERT_TRUE(enter(host, all(), std::to_string(host)).ok());
    deliver();
  }
  ASSERT_EQ(results_.size(), 7U);
  for (const auto& [host, blobs] : results_) EXPECT_THAT(blobs, ElementsAre("0", "1", "2", "3", "4", "5", "6"));
  EXPECT_EQ(answers_, 7) << "once each";
}

TEST_F(HostMeetingsTest, AHostTalksToItsParentAndChildrenOnceEach) {
  make(1'000, 10);
  for (int host = 0; host < 1'000; ++host) ASSERT_TRUE(enter(host, all(), "blob").ok());
  deliver();
  EXPECT_EQ(answers_, 1'000);
  EXPECT_EQ(sent_.size(), 2U * 999) << "each link, up and down";
  for (const auto& [link, count] : sent_) EXPECT_EQ(count, 1);
}

TEST_F(HostMeetingsTest, AFenceOfAFewTurnsWhereTheirSubtreesMeet) {
  make(15, 2);
  ASSERT_TRUE(enter(7, {7, 10}, "a").ok());  // 7 -> 3 -> 1 and 10 -> 4 -> 1
  ASSERT_TRUE(enter(10, {7, 10}, "b").ok());
  deliver();
  EXPECT_THAT(results_[7], ElementsAre("a", "b"));
  EXPECT_THAT(results_[10], ElementsAre("a", "b"));
  EXPECT_EQ(sent_.count({1, 0}), 0U) << "the root takes no part";
}

TEST_F(HostMeetingsTest, ASeriesKeepsOnlyItsLastFence) {
  make(3, 1);
  std::size_t kept = 0;
  for (std::uint64_t number = 1; number <= 5; ++number) {
    for (int host = 0; host < 3; ++host) ASSERT_TRUE(enter(host, all(), std::string(100, 'x'), number).ok());
    deliver();
    EXPECT_EQ(answers_, 3 * static_cast<int>(number));
    if (number == 1) kept = host(1).total_bytes();
    EXPECT_EQ(host(1).total_bytes(), kept);
  }
}

TEST_F(HostMeetingsTest, LongBlobsGoInSeveralParts) {
  make(4, 3, {.max_value_bytes = 100});
  for (int host = 0; host < 4; ++host)
    ASSERT_TRUE(enter(host, all(), std::string(60, static_cast<char>('a' + host))).ok());
  deliver();
  EXPECT_EQ((sent_[{0, 1}]), 4);
  ASSERT_EQ(results_[2].size(), 4U);
  EXPECT_EQ(results_[2][3], std::string(60, 'd'));
  EXPECT_EQ(enter(1, all(), std::string(101, 'x'), 2).code(), base::Code::kInvalidArgument);
}

// What a lost link swallows is sent again: from the child on its new link, and from the parent in answer.
TEST_F(HostMeetingsTest, ALostLinkLosesNoFence) {
  make(4, 1);
  cut_ = {1};
  for (int host = 0; host < 4; ++host) ASSERT_TRUE(enter(host, all(), std::to_string(host)).ok());
  deliver();
  EXPECT_EQ(answers_, 0);
  cut_.clear();
  for (int host = 1; host < 4; ++host) this->host(host).parent_connected();
  deliver();
  EXPECT_EQ(answers_, 4);

  // Host 2 loses the answer.
  for (int host = 0; host < 4; ++host) ASSERT_TRUE(enter(host, all(), std::to_string(host), 2).ok());
  while (!messages_.empty() && !(messages_.front().from == 1 && messages_.front().to == 2)) {
    ASSERT_TRUE(handle(messages_.front()).ok());
    messages_.pop_front();
  }
  messages_.clear();
  EXPECT_EQ(answers_, 4 + 2);
  host(2).parent_connected();
  deliver();
  EXPECT_EQ(answers_, 8);
  host(2).parent_connected();
  deliver();
  EXPECT_EQ(answers_, 8) << "nothing is open";
}

TEST_F(HostMeetingsTest, RefusesALyingChild) {
  make(7, 2);
  const auto from_child = [&](std::uint64_t number, const MeetingPart& part) {
    return host(1).from_child("f", number, encode_meeting_part(part), [](int) { return base::ok_status(); });
  };
  const HostSet members({0, 1, 2, 3, 4, 5, 6});
  EXPECT_THAT(from_child(1, {members, {{2, "x"}}}).message(), HasSubstr("not below the sender"));
  EXPECT_THAT(from_child(1, {members, {{3, "x"}, {4, "y"}}}).message(), HasSubstr("not below the sender"));
  EXPECT_TRUE(from_child(1, {members, {{3, "x"}}}).ok());
  EXPECT_EQ(from_child(1, {HostSet({3, 4}), {{3, "x"}}}).code(), base::Code::kInvalidArgument) << "other members";
  EXPECT_EQ(from_child(2, {members, {{3, "x"}}}).code(), base::Code::kInvalidArgument) << "the next before this";
  EXPECT_EQ(host(1).from_child("f", 1, "nonsense", {}).code(), base::Code::kInvalidArgument);
  EXPECT_EQ(host(3).from_parent("g", 1, encode_meeting_part({members, {{0, "x"}}})).code(),
            base::Code::kInvalidArgument)
      << "an answer that nobody asked for";
}

TEST_F(HostMeetingsTest, MemoryIsBounded) {
  make(3, 2, {.max_total_bytes = 1'000});
  int taken = 0;
  while (taken < 100) {
    const std::string name = "f" + std::to_string(taken);
    if (!host(0).enter(name, 1, all(), std::string(100, 'x'), [](const auto&) {}).ok()) break;
    ++taken;
  }
  EXPECT_GE(taken, 10);
  EXPECT_LE(taken, 20);
  EXPECT_LE(host(0).total_bytes(), 2'000U);
}

}  // namespace
}  // namespace muster::rendezvous::host_meetings_test
