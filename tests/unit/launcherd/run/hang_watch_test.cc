#include "launcherd/run/hang_watch.h"

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/model/hang_evidence.h"
#include "tests/unit/support/phase_diagram.h"
#include "tests/unit/support/phase_table.h"
#include "tests/unit/support/turn_until.h"

namespace muster::launcherd::hang_watch_test {
namespace {

using namespace std::chrono_literals;

using Phase = HangPhase;
using Event = HangEvent;
using Action = HangAction;

// Every pair, written down a second time. An event that a phase does not list cannot happen in it.
const std::map<Phase, std::map<Event, std::pair<Phase, Action>>> kExpected = {
    {Phase::kOff,
     {{Event::kStart, {Phase::kQuiet, Action::kWatch}},
      {Event::kStop, {Phase::kOff, Action::kNone}},
      {Event::kProgress, {Phase::kOff, Action::kNone}}}},
    {Phase::kQuiet,
     {{Event::kStop, {Phase::kOff, Action::kEnd}},
      {Event::kHold, {Phase::kQuiet, Action::kNone}},
      {Event::kProgress, {Phase::kQuiet, Action::kNone}},
      {Event::kSilence, {Phase::kAsking, Action::kAsk}}}},
    {Phase::kAsking,
     {{Event::kStop, {Phase::kOff, Action::kEnd}},
      {Event::kHold, {Phase::kQuiet, Action::kDrop}},
      {Event::kProgress, {Phase::kQuiet, Action::kDrop}},
      {Event::kHung, {Phase::kReported, Action::kReport}},
      {Event::kHealthy, {Phase::kQuiet, Action::kWait}}}},
    {Phase::kReported,
     {{Event::kStop, {Phase::kOff, Action::kEnd}},
      {Event::kHold, {Phase::kReported, Action::kNone}},
      {Event::kProgress, {Phase::kQuiet, Action::kGoOn}}}},
};

TEST(HangPhases, MatchEveryPairOfPhaseAndEvent) {
  testing_support::expect_numbered_by_position(all_hang_phases());
  testing_support::expect_numbered_by_position(all_hang_events());
  testing_support::for_each_pair(all_hang_phases(), all_hang_events(), [](Phase from, Event event, auto step) {
    const auto& steps = kExpected.at(from);
    const auto expected = steps.find(event);
    ASSERT_EQ(step.has_value(), expected != steps.end());
    if (!step) return;
    EXPECT_EQ(std::pair(step->to, step->action), expected->second);
  });
}

TEST(HangPhases, AllAreReachableAndStopEndsEach) {
  EXPECT_EQ(testing_support::reachable_phases(Phase::kOff, all_hang_events()).size(), all_hang_phases().size());
  for (const Phase phase : all_hang_phases()) EXPECT_EQ(next_step(phase, Event::kStop)->to, Phase::kOff);
}

TEST(HangPhases, DesignPageShowsTheTable) {
  testing_support::expect_in_design(
      "hang phases", testing_support::phase_diagram(all_hang_phases(), all_hang_events(), [](Phase from, Event event) {
        const auto step = next_step(from, event);
        return step && step->to != from ? name_of(step->to) : std::string_view();
      }));
}

class HangWatchTest : public ::testing::Test {
 protected:
  // The fake clock stands still, so the ticks of the loop, every 100 ms, see only the time that advance() adds.
  void start() {
    watch_.start();
    ASSERT_EQ(watch_.phase(), Phase::kQuiet);
  }
  void await_question() {
    testing_support::turn_until(loop_, [this] { return done_ != nullptr; });
  }
  // Answers the open question, as ranks that are at these places.
  void answer(const std::vector<model::Track>& tracks) {
    const auto done = std::exchange(done_, nullptr);
    done({.looks = model::looks_at(tracks), .silent_hosts = {}, .elapsed = 3s});
  }
  // Waits for some ticks.
  void tick() {
    const int before = looked_for_output_;
    testing_support::turn_until(loop_, [this, before] { return looked_for_output_ >= before + 2; });
  }
  static std::vector<model::Track> hung() { return model::but({model::in_gloo()}, 2, {model::in_lock()}); }
  static std::vector<model::Track> healthy() { return model::but({model::in_gloo()}, 2, model::evaluates()); }

  HangWatch::Events events() {
    return {
        .expects_progress = [this] { return expects_progress_; },
        .writes =
            [this] {
              ++looked_for_output_;
              return writes_;
            },
        .ask = [this](EvidenceRequests::Rounds rounds, EvidenceRequests::Done done) -> std::optional<std::uint64_t> {
          EXPECT_EQ(rounds.number, 3);
          if (!can_ask_) return std::nullopt;
          done_ = std::move(done);
          return ++asked_;
        },
        .cancel =
            [this](std::uint64_t inquiry) {
              cancelled_.insert(inquiry);
              done_ = nullptr;
            },
        .report = [this](const model::HangReport& report) { reports_.push_back(report); },
        .goes_on = [this](std::chrono::milliseconds silent) { over_.push_back(silent); },
        .complete = [](model::HangFacts& facts) { facts.size = 4; }};
  }

  base::Loop loop_;
  base::FakeClock clock_;
  bool expects_progress_ = true;
  bool can_ask_ = true;
  std::uint64_t writes_ = 0;
  int looked_for_output_ = 0;
  std::uint64_t asked_ = 0;
  std::set<std::uint64_t> cancelled_;
  EvidenceRequests::Done done_;
  std::vector<model::HangReport> reports_;
  std::vector<std::chrono::milliseconds> over_;
  HangWatch watch_{loop_, clock_, {.timeout = 800ms}, events()};
};

TEST_F(HangWatchTest, ReportsAHangOnceAndItsEnd) {
  start();
  tick();
  EXPECT_EQ(asked_, 0u);
  clock_.advance(800ms);
  await_question();
  answer(hung());
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_EQ(reports_[0].silent_ms, 800);
  EXPECT_EQ(reports_[0].looked_ms, 3'000);
  EXPECT_EQ(reports_[0].size, 4);
  clock_.advance(1h);
  tick();
  EXPECT_EQ(asked_, 1u);
  EXPECT_TRUE(over_.empty());
  ++writes_;
  tick();
  ASSERT_EQ(over_.size(), 1u);
  EXPECT_EQ(over_[0], 1h + 800ms);
  EXPECT_EQ(watch_.phase(), Phase::kQuiet);
  EXPECT_EQ(watch_.silence(), 0ms);
  clock_.advance(800ms);
  await_question();
  answer(hung());
  EXPECT_EQ(reports_.size(), 2u);
}

TEST_F(HangWatchTest, OutputAndProgressStartTheTimeAnew) {
  start();
  clock_.advance(700ms);
  ++writes_;
  tick();
  clock_.advance(700ms);
  watch_.progressed();
  clock_.advance(700ms);
  tick();
  EXPECT_EQ(asked_, 0u);
  clock_.advance(100ms);
  await_question();
}

TEST_F(HangWatchTest, ProgressDuringTheQuestionDropsIt) {
  start();
  clock_.advance(800ms);
  await_question();
  watch_.progressed();
  EXPECT_EQ(cancelled_, std::set<std::uint64_t>{1});
  EXPECT_EQ(watch_.phase(), Phase::kQuiet);
  clock_.advance(800ms);
  await_question();
  ++writes_;  // no tick has seen it yet
  answer(hung());
  EXPECT_TRUE(reports_.empty());
  EXPECT_EQ(watch_.phase(), Phase::kQuiet);
}

TEST_F(HangWatchTest, AsksHealthyJobsAfterGrowingPauses) {
  start();
  // The time from each question to the next one.
  for (const auto pause : {800ms, 800ms, 800ms, 1600ms, 3200ms}) {
    clock_.advance(pause - 1ms);
    tick();
    EXPECT_EQ(done_, nullptr) << pause.count();
    clock_.advance(1ms);
    await_question();
    answer(healthy());
    EXPECT_EQ(watch_.phase(), Phase::kQuiet);
  }
  EXPECT_TRUE(reports_.empty());
}

TEST_F(HangWatchTest, DoubtfulHangsAreReportedAfterThreeLimits) {
  start();
  for (int i = 1; i <= model::kLateFactor; ++i) {
    EXPECT_TRUE(reports_.empty());
    clock_.advance(800ms);
    await_question();
    answer(model::but({model::in_recv()}, 1, model::loops()));
  }
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_EQ(reports_[0].silent_ms, 2'400);
}

TEST_F(HangWatchTest, HeldJobsAreNotAsked) {
  expects_progress_ = false;
  start();
  clock_.advance(1h);
  tick();
  EXPECT_EQ(asked_, 0u);
  expects_progress_ = true;
  clock_.advance(800ms);
  await_question();
  expects_progress_ = false;
  answer(hung());
  EXPECT_TRUE(reports_.empty());
  EXPECT_EQ(watch_.phase(), Phase::kQuiet);
}

TEST_F(HangWatchTest, AHoldAfterTheReportIsNoProgress) {
  start();
  clock_.advance(800ms);
  await_question();
  answer(hung());
  expects_progress_ = false;
  tick();
  EXPECT_EQ(watch_.phase(), Phase::kReported);
  EXPECT_TRUE(over_.empty());
}

TEST_F(HangWatchTest, StopEndsItInAllPhases) {
  start();
  clock_.advance(800ms);
  await_question();
  watch_.stop();
  EXPECT_EQ(cancelled_.size(), 1u);
  EXPECT_EQ(watch_.phase(), Phase::kOff);
  EXPECT_EQ(watch_.silence(), 0ms);
  watch_.progressed();
  EXPECT_EQ(watch_.phase(), Phase::kOff);
}

TEST_F(HangWatchTest, WithoutAgentsItAsksLater) {
  can_ask_ = false;
  start();
  clock_.advance(800ms);
  tick();
  EXPECT_EQ(watch_.phase(), Phase::kQuiet);
  can_ask_ = true;
  clock_.advance(800ms);
  await_question();
}

TEST_F(HangWatchTest, ALimitOfZeroSwitchesItOff) {
  HangWatch off(loop_, clock_, {.timeout = 0ms}, events());
  off.start();
  EXPECT_EQ(off.phase(), Phase::kOff);
}

}  // namespace
}  // namespace muster::launcherd::hang_watch_test
