#include "launcherd/run/suspension.h"

#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcherd::suspension_test {
namespace {

using ::testing::ElementsAre;

// Three hosts: n1 and n2 run ranks, n3 does not.
class SuspensionTest : public ::testing::Test {
 protected:
  SuspensionTest() {
    for (const char* const name : {"n1", "n2", "n3"}) {
      JobHost& host = hosts_.add(name, false);
      host.phase.apply(HostEvent::kAgentUp);
      host.has_stream = true;
    }
    for (const int agent : {0, 1}) hosts_.at(agent).phase.apply(HostEvent::kLaunch);
  }

  base::Loop loop_;
  HostRoster hosts_;
  PhaseTimers timers_{loop_, JobPhase::kRunning};
  std::vector<std::pair<int, bool>> orders_;
  int dones_ = 0;
  Suspension suspension_{hosts_, timers_, [this](int agent, const v1::LauncherMessage& message) {
                           orders_.emplace_back(agent, message.suspend().on());
                         }};
};

TEST_F(SuspensionTest, IsDoneWhenEveryReachableAgentHasAnswered) {
  hosts_.at(1).has_stream = false;
  suspension_.order(true, [this] { ++dones_; });
  EXPECT_TRUE(suspension_.is_on());
  EXPECT_THAT(orders_, ElementsAre(std::pair(0, true), std::pair(1, true)));
  EXPECT_EQ(dones_, 0);
  suspension_.answered(hosts_.at(0));
  EXPECT_EQ(dones_, 1);
  EXPECT_FALSE(timers_.is_armed(JobTimer::kSuspend));
}

TEST_F(SuspensionTest, IsDoneAtOnceIfNoAgentCanAnswer) {
  for (JobHost& host : hosts_) host.has_stream = false;
  suspension_.order(true, [this] { ++dones_; });
  EXPECT_EQ(dones_, 1);
}

TEST_F(SuspensionTest, IsDoneAtOnceAfterTheJob) {
  timers_.enter(JobPhase::kFinished);
  suspension_.order(true, [this] { ++dones_; });
  EXPECT_EQ(dones_, 1);
}

TEST_F(SuspensionTest, AnswersToAnEarlierOrderDoNotCount) {
  suspension_.order(true, [this] { ++dones_; });
  suspension_.order(false, nullptr);
  EXPECT_FALSE(suspension_.is_on());
  for (int i = 0; i < 2; ++i) {
    for (const int agent : {0, 1}) suspension_.answered(hosts_.at(agent));
  }
  EXPECT_EQ(dones_, 0);  // the second order has forgotten it
}

TEST_F(SuspensionTest, IsDoneAfterASecondOrAtTheEndOfTheJob) {
  suspension_.order(true, [this] {
    ++dones_;
    loop_.stop();
  });
  loop_.run();
  EXPECT_EQ(dones_, 1);
  suspension_.order(true, [this] { ++dones_; });
  suspension_.finish();
  EXPECT_EQ(dones_, 2);
}

}  // namespace
}  // namespace muster::launcherd::suspension_test
