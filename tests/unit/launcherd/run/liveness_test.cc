#include "launcherd/run/liveness.h"

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcherd::liveness_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LivenessTest : public ::testing::Test {
 protected:
  LivenessTest() {
    for (const char* const name : {"n1", "n2"}) {
      JobHost& host = hosts_.add(name, false);
      host.has_stream = true;
      host.phase.apply(HostEvent::kAgentUp);
      host.phase.apply(HostEvent::kLaunch);
      host.ranks = {host.agent};
    }
    liveness_.start();
  }
  // Each tick comes one period after the one before. Only n2 is heard.
  void ticks(int count, bool is_suspended = false, bool is_stopping = false) {
    for (int i = 0; i < count; ++i) {
      clock_.advance(kPingPeriod);
      liveness_.heard(hosts_.at(1));
      liveness_.tick(is_suspended, is_stopping);
    }
  }
  v1::Pong pong(std::int64_t launcher_ns, std::int64_t agent_ns) {
    v1::Pong pong;
    pong.set_launcher_ns(launcher_ns);
    pong.set_agent_ns(agent_ns);
    return pong;
  }

  base::FakeClock clock_;
  HostRoster hosts_;
  std::vector<std::pair<int, std::int64_t>> pings_;
  std::vector<std::function<void(const base::Result<CommandResult>&)>> probes_;
  std::vector<std::pair<std::string, bool>> suspicions_;
  std::vector<std::string> lost_;
  std::vector<std::string> warnings_;
  std::vector<std::string> notes_;
  Liveness liveness_{
      clock_, 30s, hosts_,
      Liveness::Events{
          .send = [this](int agent,
                         v1::LauncherMessage ping) { pings_.emplace_back(agent, ping.ping().launcher_ns()); },
          .probe =
              [this](int, std::function<void(const base::Result<CommandResult>&)> done) {
                probes_.push_back(std::move(done));
              },
          .suspect = [this](const JobHost& host, bool is_suspect) { suspicions_.emplace_back(host.name, is_suspect); },
          .lease_over =
              [this](JobHost& host, const std::string& why) {
                host.phase.apply(HostEvent::kLeaseOver);
                lost_.push_back(why);
              },
          .warn = [this](const JobHost&, const std::string& line) { warnings_.push_back(line); },
          .note = [this](const std::string& line) { notes_.push_back(line); }}};
};

TEST_F(LivenessTest, PingsHostsWithAStreamAtEachTick) {
  hosts_.at(1).has_stream = false;
  ticks(2);
  EXPECT_THAT(pings_, ElementsAre(std::pair(0, pings_.at(0).second), std::pair(0, pings_.at(1).second)));
}

TEST_F(LivenessTest, SuspectsASilentHostUntilItIsHeard) {
  ticks(3);
  EXPECT_THAT(suspicions_, IsEmpty());
  ticks(2);
  EXPECT_THAT(suspicions_, ElementsAre(std::pair("n1", true)));
  EXPECT_THAT(liveness_.silent_ranks(), ElementsAre(0));
  EXPECT_THAT(warnings_, ElementsAre("n1 does not answer; waiting up to 30 s for it"));
  liveness_.heard(hosts_.at(0));
  EXPECT_FALSE(liveness_.is_suspect(hosts_.at(0)));
  EXPECT_THAT(liveness_.silent_ranks(), IsEmpty());
  EXPECT_EQ(suspicions_.back(), std::pair(std::string("n1"), false));
  EXPECT_EQ(warnings_.back(), "n1: answers again");
}

TEST_F(LivenessTest, ReportsTheHostWhenItsLeaseIsOver) {
  ticks(60);
  EXPECT_THAT(lost_, IsEmpty());
  ticks(2);
  ASSERT_EQ(lost_.size(), 1u);  // a lost host is no longer watched
  EXPECT_THAT(lost_.front(), HasSubstr("n1: not heard of for 30 s (its lease); its agent has ended its ranks"));
}

TEST_F(LivenessTest, LeasesDoNotRunWhileTheJobIsSuspended) {
  ticks(80, true);
  EXPECT_THAT(lost_, IsEmpty());
  EXPECT_THAT(suspicions_, IsEmpty());
}

TEST_F(LivenessTest, AStallOfThisProcessIsNoSilence) {
  ticks(2);
  clock_.advance(40s);
  liveness_.tick(false, false);
  EXPECT_THAT(lost_, IsEmpty());
  EXPECT_THAT(suspicions_, IsEmpty());
}

TEST_F(LivenessTest, ProbesASilentHostOnceAndReportsWhatItFound) {
  ticks(25);
  ASSERT_EQ(probes_.size(), 1u);
  probes_.front()(CommandResult{0, "", "agent was stopped: continued\nnothing else\n"});
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("does not answer"), "n1: agent was stopped: continued"));
  EXPECT_THAT(notes_, ElementsAre("n1: nothing else"));
}

TEST_F(LivenessTest, ProbesEarlierWhileRanksAreStopped) {
  ticks(5, false, true);
  EXPECT_EQ(probes_.size(), 1u);
}

TEST_F(LivenessTest, LearnsTheAgentsClockFromTheFastestAnswer) {
  const JobHost& host = hosts_.at(0);
  EXPECT_FALSE(liveness_.knows_clock(host));
  EXPECT_EQ(liveness_.corrected(host, 5), clock_.now());
  liveness_.ping(host);
  const std::int64_t sent = pings_.at(0).second;
  EXPECT_FALSE(liveness_.pong(host, pong(sent + 1, 0)));  // no such ping
  EXPECT_FALSE(liveness_.pong(host, pong(sent, -1)));     // no time
  clock_.advance(2ms);
  EXPECT_TRUE(liveness_.pong(host, pong(sent, 1'000'000)));  // its clock was 1 ms when this one was 1 ms after `sent`
  EXPECT_TRUE(liveness_.knows_clock(host));
  EXPECT_EQ(liveness_.corrected(host, 2'000'000), clock_.now());
  clock_.advance(2ms);
  EXPECT_FALSE(liveness_.pong(host, pong(sent, 1)));  // slower
}

}  // namespace
}  // namespace muster::launcherd::liveness_test
