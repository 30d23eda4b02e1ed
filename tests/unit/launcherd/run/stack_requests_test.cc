#include "launcherd/run/stack_requests.h"

#include <gtest/gtest.h>

namespace muster::launcherd::stack_requests_test {
namespace {

class StackRequestsTest : public ::testing::Test {
 protected:
  void ask() {
    questions_.ask(
        {{.agent = 0, .host = "n1", .ranks = {0, 1}}, {.agent = 2, .host = "n3", .ranks = {5}}}, is_native_,
        [this](v1::ProcessStack process) { got_.push_back(std::move(process)); }, [this] { ++done_; });
  }
  v1::StackAnswer answer(bool done, int pid = 0) const {
    v1::StackAnswer answer;
    answer.set_id(sent_.front().second.stack_question().id());
    answer.set_done(done);
    if (pid > 0) answer.mutable_process()->set_pid(pid);
    return answer;
  }

  base::Loop loop_;
  std::vector<std::pair<int, v1::LauncherMessage>> sent_;
  std::vector<v1::ProcessStack> got_;
  int done_ = 0;
  bool is_native_ = false;
  StackRequests questions_{
      loop_, [this](int agent, v1::LauncherMessage message) { sent_.emplace_back(agent, std::move(message)); }};
};

TEST_F(StackRequestsTest, EachHostIsAskedForItsRanks) {
  ask();
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_EQ(sent_[0].first, 0);
  EXPECT_EQ(sent_[0].second.stack_question().ranks_size(), 2);
  EXPECT_EQ(sent_[1].first, 2);
  EXPECT_EQ(sent_[1].second.stack_question().ranks(0), 5);
  EXPECT_FALSE(sent_[1].second.stack_question().native());
}

TEST_F(StackRequestsTest, NativeFunctionsAreAskedForOnlyIfWanted) {
  is_native_ = true;
  ask();
  EXPECT_TRUE(sent_[0].second.stack_question().native());
}

TEST_F(StackRequestsTest, DoneWhenEveryHostIs) {
  ask();
  questions_.answered(0, answer(false, 11));
  questions_.answered(2, answer(true));
  EXPECT_EQ(done_, 0);
  questions_.answered(0, answer(true));
  EXPECT_EQ(done_, 1);
  ASSERT_EQ(got_.size(), 1u);
  EXPECT_EQ(got_[0].host(), "n1");
  EXPECT_EQ(got_[0].pid(), 11);
}

TEST_F(StackRequestsTest, IgnoresAnswersOfAgentsThatWereNotAsked) {
  ask();
  questions_.answered(1, answer(true));
  v1::StackAnswer other = answer(true);
  other.set_id(other.id() + 1);
  questions_.answered(0, other);
  EXPECT_EQ(done_, 0);
}

TEST_F(StackRequestsTest, AHostThatIsLostCostsOnlyItself) {
  ask();
  questions_.lost(2);
  questions_.lost(1);
  ASSERT_EQ(got_.size(), 1u);
  EXPECT_EQ(got_[0].pid(), 0);
  EXPECT_NE(got_[0].problem().find("n3 was lost"), std::string::npos);
  EXPECT_EQ(done_, 0);
  questions_.answered(0, answer(true));
  EXPECT_EQ(done_, 1);
}

TEST_F(StackRequestsTest, ProblemsNameTheHost) {
  ask();
  v1::StackAnswer failed = answer(true);
  failed.set_problem("not done");
  questions_.answered(0, failed);
  ASSERT_EQ(got_.size(), 1u);
  EXPECT_EQ(got_[0].problem(), "n1: not done");
}

TEST_F(StackRequestsTest, TheEndOfTheJobEndsThem) {
  ask();
  questions_.close();
  EXPECT_EQ(done_, 1);
  questions_.answered(0, answer(true));
  EXPECT_EQ(done_, 1);
}

TEST_F(StackRequestsTest, IsDoneAtOnceWithoutHosts) {
  questions_.ask({}, false, nullptr, [this] { ++done_; });
  EXPECT_EQ(done_, 1);
}

}  // namespace
}  // namespace muster::launcherd::stack_requests_test
