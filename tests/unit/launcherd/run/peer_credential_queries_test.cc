#include "launcherd/run/peer_credential_queries.h"

#include <gtest/gtest.h>

namespace muster::launcherd::peer_credential_queries_test {
namespace {

struct Sent {
  int agent;
  v1::LauncherMessage message;
};

class PeerCredentialQueriesTest : public ::testing::Test {
 protected:
  static v1::OwnerQuestion question(std::uint64_t id) {
    v1::OwnerQuestion question;
    question.set_id(id);
    question.set_peer("10.0.0.2");
    question.set_peer_port(4711);
    return question;
  }
  // Answers what was sent at `index`.
  void answer(std::size_t index, bool allowed) {
    v1::OwnerAnswer answer;
    answer.set_id(sent.at(index).message.owner_question().id());
    answer.set_allowed(allowed);
    questions.answered(sent.at(index).agent, answer);
  }
  void expect_reply(std::size_t index, int asker, std::uint64_t id, bool allowed) {
    ASSERT_GT(sent.size(), index);
    EXPECT_EQ(sent[index].agent, asker);
    EXPECT_EQ(sent[index].message.owner_answer().id(), id);
    EXPECT_EQ(sent[index].message.owner_answer().allowed(), allowed);
  }

  std::vector<Sent> sent;
  PeerCredentialQueries questions{[this](int agent, v1::LauncherMessage message) {
    sent.push_back({agent, std::move(message)});
  }};
};

TEST_F(PeerCredentialQueriesTest, ForwardsToCandidatesAndAnswersUnderTheAskersId) {
  questions.ask(0, question(7), {2});
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].agent, 2);
  EXPECT_EQ(sent[0].message.owner_question().peer(), "10.0.0.2");
  EXPECT_EQ(sent[0].message.owner_question().peer_port(), 4711U);
  answer(0, true);
  expect_reply(1, 0, 7, true);
}

TEST_F(PeerCredentialQueriesTest, NobodyThereIsANo) {
  questions.ask(3, question(9), {});
  expect_reply(0, 3, 9, false);
}

TEST_F(PeerCredentialQueriesTest, OneYesIsEnoughAndOnlyAllNoIsNo) {
  questions.ask(0, question(1), {1, 2});
  answer(0, false);
  EXPECT_EQ(sent.size(), 2U);
  answer(1, true);
  expect_reply(2, 0, 1, true);

  questions.ask(0, question(2), {1, 2});
  answer(3, false);
  answer(4, false);
  expect_reply(5, 0, 2, false);
}

TEST_F(PeerCredentialQueriesTest, SameIdsOfDifferentAskersDoNotMix) {
  questions.ask(0, question(5), {2});
  questions.ask(1, question(5), {2});
  answer(1, true);
  expect_reply(2, 1, 5, true);
  answer(0, false);
  expect_reply(3, 0, 5, false);
}

TEST_F(PeerCredentialQueriesTest, AnswersThatNobodyWaitsForAreIgnored) {
  questions.ask(0, question(1), {1, 2});
  answer(0, true);
  ASSERT_EQ(sent.size(), 3U);
  answer(1, true);  // the second of two
  v1::OwnerAnswer unknown;
  unknown.set_id(99);
  questions.answered(1, unknown);
  EXPECT_EQ(sent.size(), 3U);
}

// Ids are easy to guess: a host must not let a stranger in by a question that was put to another one.
TEST_F(PeerCredentialQueriesTest, AcceptsOneAnswerFromEachQueriedAgent) {
  questions.ask(0, question(1), {1, 2});
  v1::OwnerAnswer answer;
  answer.set_id(sent.at(0).message.owner_question().id());
  answer.set_allowed(true);
  questions.answered(3, answer);
  EXPECT_EQ(sent.size(), 2U);
  answer.set_allowed(false);
  questions.answered(1, answer);
  questions.answered(1, answer);
  EXPECT_EQ(sent.size(), 2U);
  questions.answered(2, answer);
  expect_reply(2, 0, 1, false);
}

}  // namespace
}  // namespace muster::launcherd::peer_credential_queries_test
