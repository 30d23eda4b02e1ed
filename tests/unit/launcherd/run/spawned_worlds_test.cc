#include "launcherd/run/spawned_worlds.h"

#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcherd::spawned_worlds_test {
namespace {

using ::testing::ElementsAre;

// Two hosts with a rank each. Rank 0 spawns ranks 2 and 3, one on each host.
class SpawnedWorldsTest : public ::testing::Test {
 protected:
  SpawnedWorldsTest() {
    for (const char* const name : {"n1", "n2"}) {
      JobHost& host = hosts_.add(name, false);
      host.phase.apply(HostEvent::kAgentUp);
      host.phase.apply(HostEvent::kLaunch);
      host.ranks = {host.agent};
    }
    std::vector<v1::AddWorld> messages(2);
    for (const int place : {0, 1}) {
      messages[static_cast<std::size_t>(place)].mutable_launch()->add_ranks()->set_rank(2 + place);
    }
    worlds_.begin({.agent = 0, .request = 9, .name = "world", .first = 2, .size = 2}, std::move(messages));
  }
  void added(int agent, const std::string& error = "", bool starts_no_rank = false) {
    v1::WorldAdded message;
    message.set_first(2);
    message.set_error(error);
    message.set_starts_no_rank(starts_no_rank);
    worlds_.added(hosts_.at(agent), message);
  }
  static model::RankEnd end_of(int rank) {
    model::RankEnd end;
    end.rank = rank;
    end.host = "n1";
    end.detail = "no such program";
    return end;
  }
  // The answer to the request; an empty one if there is none.
  v1::SpawnAnswer answer() const {
    for (const auto& [agent, message] : sent_) {
      if (message.has_spawn_answer()) return message.spawn_answer();
    }
    return {};
  }
  int kills() const {
    int count = 0;
    for (const auto& [agent, message] : sent_) count += message.kill_ranks().ranks_size();
    return count;
  }

  HostRoster hosts_;
  std::vector<std::pair<int, v1::LauncherMessage>> sent_;
  std::vector<int> expected_;
  int ranks_ = 0;
  std::vector<int> ends_;
  SpawnedWorlds worlds_{
      hosts_, 2,
      SpawnedWorlds::Events{
          .send = [this](int agent, v1::LauncherMessage message) { sent_.emplace_back(agent, message); },
          .expect_output =
              [this](int, const std::vector<int>& ranks) {
                expected_.insert(expected_.end(), ranks.begin(), ranks.end());
              },
          .add_ranks = [this](int count) { ranks_ += count; },
          .add_end = [this](const model::RankEnd& end) { ends_.push_back(end.rank); }}};
};

TEST_F(SpawnedWorldsTest, SendsTheWorldToEveryHost) {
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_TRUE(sent_[0].second.has_add_world());
  EXPECT_THAT(expected_, ElementsAre(2, 3));
  EXPECT_THAT(hosts_.at(1).ranks, ElementsAre(1, 3));
  EXPECT_EQ(worlds_.next_number(), 4);
}

TEST_F(SpawnedWorldsTest, AnswersWhenAllHostsKnowItAndAllRanksHaveStarted) {
  added(0);
  added(1);
  worlds_.started(2);
  EXPECT_EQ(ranks_, 0);
  EXPECT_TRUE(worlds_.keep_end(end_of(2)));  // it ended before the world was up
  worlds_.started(3);
  EXPECT_EQ(ranks_, 2);
  EXPECT_EQ(answer().id(), 9u);
  EXPECT_EQ(answer().world(), "world");
  EXPECT_THAT(ends_, ElementsAre(2));
  EXPECT_FALSE(worlds_.keep_end(end_of(3)));  // it counts for the job
  EXPECT_FALSE(worlds_.has_failed(2));
}

TEST_F(SpawnedWorldsTest, FailsIfARankDoesNotStart) {
  worlds_.started(3);
  EXPECT_TRUE(worlds_.keep_end(end_of(2)));
  EXPECT_EQ(answer().error(), "n1: no such program");
  EXPECT_EQ(kills(), 2);
  EXPECT_TRUE(worlds_.has_failed(3));
  EXPECT_FALSE(worlds_.has_failed(1));
  EXPECT_TRUE(worlds_.keep_end(end_of(3)));
  EXPECT_EQ(ranks_, 0);
}

TEST_F(SpawnedWorldsTest, FailsIfAHostWithRanksOfItCannotAddIt) {
  added(1, "no memory", true);
  EXPECT_EQ(answer().error(), "n2: no memory");
}

TEST_F(SpawnedWorldsTest, AHostWithoutRanksOfItMayFailToAddIt) {
  hosts_.at(1).ranks = {1};
  added(1, "no memory", true);
  EXPECT_EQ(answer().error(), "");
  added(0, "no memory");
  EXPECT_EQ(answer().error(), "n1: no memory");
}

TEST_F(SpawnedWorldsTest, FailsIfAHostLeaves) {
  worlds_.host_left(hosts_.at(1));
  EXPECT_EQ(answer().error(), "n2: it has left the job");
}

TEST_F(SpawnedWorldsTest, RefusesARequest) {
  worlds_.refuse(1, 5, "the job is ending");
  EXPECT_EQ(sent_.back().first, 1);
  EXPECT_EQ(answer().error(), "the job is ending");
}

}  // namespace
}  // namespace muster::launcherd::spawned_worlds_test
