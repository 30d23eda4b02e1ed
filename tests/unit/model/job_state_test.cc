#include "model/job_state.h"

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace muster::model::job_state_test {
namespace {

using enum JobState;
using Row = std::array<std::optional<JobState>, 11>;
constexpr std::nullopt_t kNo = std::nullopt;

// Every pair, written down a second time: a change of the table is meant, or found here. Columns as all_job_triggers():
// start, requeue, all up, stop, restart, end well, end badly, end killed, lose track, hold, release.
const std::map<JobState, Row> kExpected = {
    {kQueued, {kStarting, kNo, kNo, kNo, kNo, kNo, kFailed, kKilled, kNo, kQueued, kQueued}},
    {kStarting, {kNo, kQueued, kRunning, kStopping, kStarting, kSucceeded, kFailed, kNo, kLost, kNo, kNo}},
    {kRunning, {kNo, kNo, kNo, kStopping, kStarting, kSucceeded, kFailed, kNo, kLost, kNo, kNo}},
    {kStopping, {kNo, kNo, kNo, kStopping, kStarting, kSucceeded, kFailed, kKilled, kLost, kNo, kNo}},
    {kSucceeded, {}},
    {kFailed, {}},
    {kKilled, {}},
    {kLost, {}},
};

TEST(JobState, EveryPair) {
  ASSERT_EQ(kExpected.size(), all_job_states().size());
  ASSERT_EQ(all_job_triggers().size(), Row{}.size());
  for (const JobState from : all_job_states()) {
    for (std::size_t i = 0; i < all_job_triggers().size(); ++i) {
      const auto next = next_state(from, all_job_triggers()[i]);
      const auto expected = kExpected.at(from)[i];
      ASSERT_EQ(next.has_value(), expected.has_value()) << name_of(from) << " trigger " << i;
      if (!next) continue;
      EXPECT_EQ(next->to, *expected) << name_of(from) << " trigger " << i;
      EXPECT_FALSE(next->reason.empty()) << name_of(from) << " trigger " << i;
      EXPECT_TRUE(can_follow(from, next->to));
    }
  }
}

TEST(JobState, CanFollowIsNoMoreThanTheTable) {
  for (const JobState from : all_job_states()) {
    for (const JobState to : all_job_states()) {
      const Row& row = kExpected.at(from);
      EXPECT_EQ(can_follow(from, to), std::ranges::find(row, std::optional(to)) != row.end())
          << name_of(from) << " to " << name_of(to);
    }
  }
}

// The states to which any sequence of triggers leads, `from` included.
std::set<JobState> reachable(JobState from) {
  std::set<JobState> seen = {from};
  std::vector<JobState> todo = {from};
  while (!todo.empty()) {
    const JobState state = todo.back();
    todo.pop_back();
    for (const JobTrigger trigger : all_job_triggers()) {
      if (const auto next = next_state(state, trigger); next && seen.insert(next->to).second) todo.push_back(next->to);
    }
  }
  return seen;
}

TEST(JobState, EveryStateIsReachedAndEveryOneCanEnd) {
  EXPECT_EQ(reachable(kQueued).size(), all_job_states().size());
  for (const JobState state : all_job_states()) {
    EXPECT_TRUE(std::ranges::any_of(reachable(state), [](JobState each) { return is_final(each); })) << name_of(state);
    EXPECT_EQ(reachable(state).size() == 1, is_final(state)) << name_of(state);
  }
  for (const JobState state : {kQueued, kStarting, kRunning, kStopping}) {  // a user can always end a job
    EXPECT_TRUE(reachable(state).contains(kKilled)) << name_of(state);
  }
}

TEST(JobState, RandomOrdersOfTriggersKeepTheRules) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  std::uniform_int_distribution<std::size_t> pick(0, all_job_triggers().size() - 1);
  std::set<JobState> visited;
  for (int walk = 0; walk < 2000; ++walk) {
    JobState state = kQueued;
    std::vector<JobState> path = {state};
    for (int step = 0; step < 60; ++step) {
      const JobTrigger trigger = all_job_triggers()[pick(random)];
      const auto next = next_state(state, trigger);
      ASSERT_FALSE(is_final(state) && next) << "left " << name_of(state);
      if (!next) continue;
      ASSERT_TRUE(next->to != kKilled || state == kQueued || state == kStopping) << name_of(state);
      ASSERT_TRUE(next->to != kRunning || state == kStarting) << name_of(state);
      ASSERT_TRUE(next->to != kQueued || state == kStarting || state == kQueued) << name_of(state);
      // What may have ranks ends only when they have: never straight from QUEUED to an end that has an exit code of
      // them.
      ASSERT_FALSE(state == kQueued && (next->to == kSucceeded || next->to == kLost));
      state = next->to;
      path.push_back(state);
    }
    visited.insert(path.begin(), path.end());
    // 60 random triggers end nearly every walk; one that has not ended still can.
    EXPECT_TRUE(is_final(state) || reachable(state).contains(kSucceeded)) << name_of(state);
  }
  EXPECT_EQ(visited.size(), all_job_states().size());
}

TEST(JobState, NumbersAndNamesComeBack) {
  for (const JobState state : all_job_states()) EXPECT_EQ(job_state_of(static_cast<long>(state)), state);
  for (const RankState state : all_rank_states()) EXPECT_EQ(rank_state_of(static_cast<long>(state)), state);
  for (const long number : {-1L, 0L, 9L, 1L << 40}) EXPECT_EQ(job_state_of(number), std::nullopt) << number;
  for (const long number : {-1L, 0L, 7L, 1L << 40}) EXPECT_EQ(rank_state_of(number), std::nullopt) << number;
  EXPECT_EQ(name_of(kQueued), "QUEUED");
  EXPECT_EQ(name_of(kLost), "LOST");
  EXPECT_EQ(name_of(RankState::kWaiting), "WAITING");
  EXPECT_EQ(name_of(RankState::kLost), "LOST");
}

TEST(RankState, EveryPair) {
  using enum RankState;
  const std::map<RankState, std::array<std::optional<RankState>, 5>> expected = {
      {kWaiting, {kRunning, kNo, RankState::kFailed, kStopped, RankState::kLost}},
      {RankState::kRunning, {kNo, RankState::kSucceeded, RankState::kFailed, kStopped, RankState::kLost}},
      {RankState::kSucceeded, {}},
      {RankState::kFailed, {}},
      {kStopped, {}},
      {RankState::kLost, {}},
  };
  ASSERT_EQ(all_rank_triggers().size(), 5u);
  for (const RankState from : all_rank_states()) {
    for (std::size_t i = 0; i < all_rank_triggers().size(); ++i) {
      const auto next = next_state(from, all_rank_triggers()[i]);
      EXPECT_EQ(next, expected.at(from)[i]) << name_of(from) << " trigger " << i;
      EXPECT_TRUE(!next || can_follow(from, *next)) << name_of(from);
      EXPECT_FALSE(is_final(from) && next) << name_of(from);
    }
    EXPECT_FALSE(can_follow(from, kWaiting));
    EXPECT_EQ(is_final(from), expected.at(from) == decltype(expected)::mapped_type{}) << name_of(from);
  }
}

TEST(RankState, TheEndOfARankIsATrigger) {
  const auto trigger = [](EndKind kind, int exit_code) {
    RankEnd end;
    end.kind = kind;
    end.exit_code = exit_code;
    return trigger_of(end);
  };
  EXPECT_EQ(trigger(EndKind::kExited, 0), RankTrigger::kEndWell);
  EXPECT_EQ(trigger(EndKind::kExited, 3), RankTrigger::kEndBadly);
  EXPECT_EQ(trigger(EndKind::kSignalled, 0), RankTrigger::kEndBadly);
  EXPECT_EQ(trigger(EndKind::kStartFailed, 127), RankTrigger::kEndBadly);
  EXPECT_EQ(trigger(EndKind::kStopped, 0), RankTrigger::kEndStopped);
  EXPECT_EQ(trigger(EndKind::kHostLost, 0), RankTrigger::kLoseHost);
  RankEnd unfinished;
  unfinished.without_finalize = true;
  EXPECT_EQ(trigger_of(unfinished), RankTrigger::kEndBadly);
}

}  // namespace
}  // namespace muster::model::job_state_test
