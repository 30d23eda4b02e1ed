#include "launcherd/run/evidence_requests.h"

#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/support/turn_until.h"

namespace muster::launcherd::evidence_requests_test {
namespace {

using namespace std::chrono_literals;

class EvidenceRequestsTest : public ::testing::Test {
 protected:
  std::uint64_t ask(int rounds = 2) {
    return requests_.ask({{.agent = 0, .host = "n1"}, {.agent = 2, .host = "n3"}},
                         {.number = rounds, .apart = 7ms, .pause = 0ms},
                         [this](EvidenceRequests::Answers answers) { done_ = std::move(answers); });
  }
  // Answers the newest question that the agent got.
  void answer(int agent, int rank) {
    v1::EvidenceAnswer answer;
    for (const auto& [to, message] : sent_) {
      if (to == agent) answer.set_id(message.evidence_question().id());
    }
    answer.add_ranks()->set_rank(rank);
    requests_.answered(agent, answer);
  }
  void await_questions(std::size_t count) {
    testing_support::turn_until(loop_, [this, count] { return sent_.size() >= count; });
    ASSERT_EQ(sent_.size(), count);
  }

  base::Loop loop_;
  base::SystemClock clock_;
  std::vector<std::pair<int, v1::LauncherMessage>> sent_;
  std::optional<EvidenceRequests::Answers> done_;
  EvidenceRequests requests_{
      loop_, clock_, [this](int agent, v1::LauncherMessage message) { sent_.emplace_back(agent, std::move(message)); }};
};

TEST_F(EvidenceRequestsTest, AsksInRoundsAndNamesTheHosts) {
  ask();
  await_questions(2);
  EXPECT_EQ(sent_[0].second.evidence_question().apart_ms(), 7);
  answer(0, 0);
  answer(2, 5);
  EXPECT_FALSE(done_);
  await_questions(4);
  answer(2, 5);
  answer(0, 0);
  ASSERT_TRUE(done_);
  ASSERT_EQ(done_->looks.size(), 2u);
  ASSERT_EQ(done_->looks[0].size(), 2u);
  EXPECT_EQ(done_->looks[0][1].rank, 5);
  EXPECT_EQ(done_->looks[0][1].host, "n3");
  EXPECT_TRUE(done_->silent_hosts.empty());
}

TEST_F(EvidenceRequestsTest, AHostThatIsLostIsSilentAndNotAskedAgain) {
  ask();
  answer(0, 0);
  requests_.lost(2);
  await_questions(3);
  answer(0, 0);
  ASSERT_TRUE(done_);
  EXPECT_EQ(done_->silent_hosts, std::vector<std::string>{"n3"});
  EXPECT_EQ(done_->looks.size(), 2u);
}

TEST_F(EvidenceRequestsTest, AllHostsMayBeLostBetweenTwoRounds) {
  ask();
  answer(0, 0);
  answer(2, 5);
  requests_.lost(0);
  requests_.lost(2);
  testing_support::turn_until(loop_, [this] { return done_.has_value(); });
  EXPECT_EQ(done_->silent_hosts.size(), 2u);
  EXPECT_EQ(done_->looks.size(), 1u);
}

TEST_F(EvidenceRequestsTest, IgnoresLateAndForeignAnswers) {
  ask();
  v1::EvidenceAnswer foreign;
  foreign.set_id(sent_[0].second.evidence_question().id());
  requests_.answered(1, foreign);
  requests_.answered(0, foreign);
  foreign.add_ranks()->set_rank(0);
  requests_.answered(0, foreign);  // a second answer
  foreign.set_id(99);
  requests_.answered(2, foreign);
  EXPECT_FALSE(done_);
  requests_.close();
  ASSERT_TRUE(done_);
  EXPECT_TRUE(done_->looks[0].empty());
}

TEST_F(EvidenceRequestsTest, ACancelledInquiryNeverEnds) {
  const std::uint64_t inquiry = ask(1);
  requests_.cancel(inquiry);
  requests_.cancel(inquiry + 1);
  answer(0, 0);
  answer(2, 5);
  requests_.close();
  EXPECT_FALSE(done_);
}

}  // namespace
}  // namespace muster::launcherd::evidence_requests_test
