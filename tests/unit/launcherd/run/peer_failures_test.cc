#include "launcherd/run/peer_failures.h"

#include <signal.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcherd::peer_failures_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

model::RankEnd exited(int rank, int code) {
  model::RankEnd end;
  end.rank = rank;
  end.exit_code = code;
  return end;
}

model::RankEnd killed(int rank) {
  model::RankEnd end;
  end.rank = rank;
  end.kind = model::EndKind::kSignalled;
  end.signal = SIGKILL;
  return end;
}

class PeerFailuresTest : public ::testing::Test {
 protected:
  std::vector<std::string> sent() { return std::exchange(sent_, {}); }

  std::vector<std::string> sent_;
  PeerFailures news_{[this](int agent, const v1::LauncherMessage& message) {
    std::string line = "agent " + std::to_string(agent) + ":";
    if (message.has_silent_ranks()) line += " silent:";
    for (const int rank : message.silent_ranks().ranks()) line += " " + std::to_string(rank);
    for (const v1::EndedRank& ended : message.ranks_ended().ranks()) {
      line += " " + std::to_string(ended.rank()) + (ended.failed() ? " failed " : " ended ") + ended.cause() + ";";
    }
    sent_.push_back(line);
  }};
};

TEST_F(PeerFailuresTest, WithoutFollowersNothingIsKept) {
  EXPECT_FALSE(news_.add(killed(1)));
  news_.flush();
  news_.follow(0, {0}, {}, false);
  EXPECT_THAT(sent(), IsEmpty());
}

// Ranks have other numbers then.
TEST_F(PeerFailuresTest, AGenerationForgetsTheEndsBefore) {
  news_.follow(0, {0}, {}, true);
  news_.follow(1, {1}, {}, true);
  EXPECT_TRUE(news_.add(killed(0)));
  news_.set_silent({0});
  news_.begin_generation({{1, {0}}});
  news_.flush();
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_TRUE(news_.add(killed(0)));
  news_.flush();
  EXPECT_THAT(sent(), ElementsAre("agent 0: 0 failed was killed by signal 9 (SIGKILL);")) << "agent 1 has rank 0 now";
}

TEST_F(PeerFailuresTest, FollowerGetsEndsOfOtherHostsOnce) {
  news_.follow(0, {0, 1}, {exited(0, 1), exited(2, 0)}, false);
  EXPECT_THAT(sent(), ElementsAre("agent 0: 2 ended exited with 0;"));
  news_.follow(1, {2, 3}, {exited(0, 1), exited(2, 0)}, false);
  EXPECT_THAT(sent(), ElementsAre("agent 1: 0 failed exited with 1;"));
  EXPECT_TRUE(news_.add(killed(1)));
  EXPECT_TRUE(news_.add(killed(3)));
  EXPECT_THAT(sent(), IsEmpty());
  news_.flush();
  EXPECT_THAT(sent(), ElementsAre("agent 0: 3 failed was killed by signal 9 (SIGKILL);",
                                  "agent 1: 1 failed was killed by signal 9 (SIGKILL);"));
  news_.flush();
  EXPECT_THAT(sent(), IsEmpty());
}

TEST_F(PeerFailuresTest, NewFollowerGetsWaitingEndsOnce) {
  news_.follow(0, {0}, {}, false);
  news_.add(killed(2));
  news_.follow(1, {1}, {killed(2)}, false);
  EXPECT_THAT(sent(), ElementsAre("agent 0: 2 failed was killed by signal 9 (SIGKILL);",
                                  "agent 1: 2 failed was killed by signal 9 (SIGKILL);"));
  news_.flush();
  news_.follow(1, {1}, {killed(2)}, false);
  EXPECT_THAT(sent(), IsEmpty());
}

TEST_F(PeerFailuresTest, SendsNothingToAFollowerThatIsGone) {
  news_.follow(0, {0}, {}, false);
  news_.add(killed(2));
  news_.unfollow(0);
  news_.flush();
  EXPECT_THAT(sent(), IsEmpty());
}

TEST_F(PeerFailuresTest, ReportsSilentRanksOnceAndNotThoseOfTheFollowersHost) {
  news_.follow(0, {0, 1}, {}, true);
  news_.follow(1, {2, 3}, {}, true);
  news_.set_silent({2, 3});
  EXPECT_THAT(sent(), IsEmpty());
  news_.flush();
  EXPECT_THAT(sent(), ElementsAre("agent 0: silent: 2 3"));
  news_.flush();
  EXPECT_THAT(sent(), IsEmpty());
  news_.set_silent({});
  news_.flush();
  EXPECT_THAT(sent(), ElementsAre("agent 0: silent:"));
}

TEST_F(PeerFailuresTest, ReportsSilentRanksToLateAgentsAndAfterACut) {
  news_.set_silent({2});
  news_.follow(0, {0}, {}, true);
  EXPECT_THAT(sent(), ElementsAre("agent 0: silent: 2"));
  news_.stream_began(0);
  EXPECT_THAT(sent(), ElementsAre("agent 0: silent: 2"));
  news_.stream_began(1);
  EXPECT_THAT(sent(), IsEmpty());
}

TEST_F(PeerFailuresTest, ReportsNoSilenceToAgentsOfOlderReleases) {
  news_.follow(0, {0}, {}, false);
  news_.set_silent({2});
  news_.flush();
  news_.stream_began(0);
  EXPECT_THAT(sent(), IsEmpty());
}

}  // namespace
}  // namespace muster::launcherd::peer_failures_test
