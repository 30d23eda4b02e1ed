#include "launcherd/agents/pooled_host_phase.h"

#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/unit/support/phase_diagram.h"
#include "tests/unit/support/phase_table.h"

namespace muster::launcherd::pooled_host_phase_test {
namespace {

using Phase = PooledHostPhase;
using Event = PooledHostEvent;
using Action = PooledHostAction;
using Steps = std::map<Event, std::pair<Phase, Action>>;

// Every pair, written down a second time: a change of the table is either meant or found here. An event that a phase
// does not list has no meaning in it.
const std::map<Phase, Steps> kExpected = {
    {Phase::kAbsent,
     {{Event::kRemember, {Phase::kAwaited, Action::kNone}}, {Event::kStart, {Phase::kStarting, Action::kBootstrap}}}},
    {Phase::kStarting,
     {{Event::kLaunch, {Phase::kJoining, Action::kAwaitReport}},
      {Event::kFailStart, {Phase::kFailed, Action::kRetryLater}},
      {Event::kHello, {Phase::kConnected, Action::kOpenJobs}},
      {Event::kUnreadable, {Phase::kAbsent, Action::kDropAgent}},
      {Event::kEndLauncher, {Phase::kUnwanted, Action::kNone}}}},
    {Phase::kJoining,
     {{Event::kFailStart, {Phase::kFailed, Action::kRetryLater}},
      {Event::kLoseLogin, {Phase::kJoining, Action::kAwaitLastReport}},
      {Event::kHello, {Phase::kConnected, Action::kOpenJobs}},
      {Event::kUnreadable, {Phase::kAbsent, Action::kDropAgent}},
      {Event::kEndLauncher, {Phase::kUnwanted, Action::kNone}}}},
    {Phase::kAwaited,
     {{Event::kHello, {Phase::kConnected, Action::kOpenJobs}},
      {Event::kFindAlive, {Phase::kAwaited, Action::kAwaitReturn}},
      {Event::kFindGone, {Phase::kAbsent, Action::kLoseAgent}},
      {Event::kUnreadable, {Phase::kAbsent, Action::kDropAgent}}}},
    {Phase::kConnected,
     {{Event::kFailStart, {Phase::kFailed, Action::kRetryLater}},
      {Event::kReturn, {Phase::kConnected, Action::kContinueJobs}},
      {Event::kSilence, {Phase::kSilent, Action::kShow}},
      {Event::kCut, {Phase::kCut, Action::kSuspendJobs}},
      {Event::kUnreadable, {Phase::kAbsent, Action::kDropAgent}},
      {Event::kEndLauncher, {Phase::kDismissed, Action::kDismiss}}}},
    {Phase::kSilent,
     {{Event::kFailStart, {Phase::kFailed, Action::kRetryLater}},
      {Event::kReturn, {Phase::kConnected, Action::kContinueJobs}},
      {Event::kHear, {Phase::kConnected, Action::kShow}},
      {Event::kCut, {Phase::kCut, Action::kSuspendJobs}},
      {Event::kUnreadable, {Phase::kAbsent, Action::kDropAgent}},
      {Event::kEndLauncher, {Phase::kDismissed, Action::kDismiss}}}},
    {Phase::kCut,
     {{Event::kFailStart, {Phase::kFailed, Action::kRetryLater}},
      {Event::kReturn, {Phase::kConnected, Action::kContinueJobs}},
      {Event::kFindAlive, {Phase::kCut, Action::kAwaitReturn}},
      {Event::kFindGone, {Phase::kAbsent, Action::kLoseAgent}},
      {Event::kUnreadable, {Phase::kAbsent, Action::kDropAgent}}}},
    {Phase::kFailed, {{Event::kStart, {Phase::kStarting, Action::kBootstrap}}}},
    {Phase::kUnwanted,
     {{Event::kFailStart, {Phase::kFailed, Action::kRetryLater}},
      {Event::kLoseLogin, {Phase::kUnwanted, Action::kAwaitLastReport}},
      {Event::kHello, {Phase::kDismissed, Action::kDismiss}},
      {Event::kUnreadable, {Phase::kAbsent, Action::kDropAgent}}}},
    {Phase::kDismissed,
     {{Event::kFailStart, {Phase::kFailed, Action::kRetryLater}},
      {Event::kReturn, {Phase::kDismissed, Action::kDismiss}},
      {Event::kStored, {Phase::kDismissed, Action::kDismiss}},
      {Event::kCut, {Phase::kAbsent, Action::kLoseAgent}},
      {Event::kUnreadable, {Phase::kAbsent, Action::kDropAgent}}}},
};

template <typename Check>
void for_each_pair(Check check) {
  testing_support::for_each_pair(all_pooled_host_phases(), all_pooled_host_events(), check);
}

std::set<Phase> reachable(Phase from) {
  return testing_support::reachable_phases(from, all_pooled_host_events());
}

TEST(PooledHostPhase, HasTheExpectedStepForEveryPair) {
  ASSERT_EQ(kExpected.size(), all_pooled_host_phases().size());
  for_each_pair([](Phase from, Event event, const std::optional<PooledHostStep>& step) {
    const auto expected = kExpected.at(from).find(event);
    ASSERT_EQ(step.has_value(), expected != kExpected.at(from).end());
    if (!step) return;
    EXPECT_EQ(step->to, expected->second.first);
    EXPECT_EQ(step->action, expected->second.second);
  });
}

TEST(PooledHostPhase, IsReachedFromTheFirstPhaseAndLeadsBackToIt) {
  EXPECT_EQ(reachable(Phase::kAbsent).size(), all_pooled_host_phases().size());
  for (const Phase phase : all_pooled_host_phases()) {
    EXPECT_TRUE(reachable(phase).contains(Phase::kAbsent)) << name_of(phase);
  }
}

TEST(PooledHostPhase, NumbersOfPhasesAndEventsMatchTheirPositions) {
  testing_support::expect_numbered_by_position(all_pooled_host_phases());
  testing_support::expect_numbered_by_position(all_pooled_host_events());
  EXPECT_EQ(name_of(Phase::kDismissed), "dismissed");
  EXPECT_EQ(name_of(Event::kStored), "stored");
}

// A stream needs an agent that has joined.
TEST(PooledHostPhase, FactsOfPhasesDoNotContradict) {
  for (const Phase phase : all_pooled_host_phases()) {
    EXPECT_TRUE(!has_stream(phase) || has_joined(phase)) << name_of(phase);
    EXPECT_TRUE(!has_joined(phase) || has_agent(phase)) << name_of(phase);
    EXPECT_TRUE(!must_end(phase) || has_agent(phase)) << name_of(phase);
  }
}

TEST(PooledHostPhase, ActionsFitThePhasesThatTheyLeadTo) {
  for_each_pair([](Phase from, Event event, const std::optional<PooledHostStep>& step) {
    EXPECT_EQ(event == Event::kUnreadable && has_agent(from), step && step->action == Action::kDropAgent);
    if (!step) return;
    const bool loses = has_agent(from) && !has_agent(step->to);
    EXPECT_EQ(loses, step->action == Action::kLoseAgent || step->action == Action::kDropAgent ||
                         step->action == Action::kRetryLater);
    if (step->action == Action::kOpenJobs || step->action == Action::kContinueJobs) {
      EXPECT_TRUE(has_stream(step->to));
    }
    EXPECT_EQ(step->action == Action::kDismiss, step->to == Phase::kDismissed);
  });
}

TEST(PooledHostPhase, DesignShowsTheTable) {
  const auto next = [](Phase from, Event event) {
    const auto step = next_step(from, event);
    return step ? name_of(step->to) : std::string_view();
  };
  testing_support::expect_in_design(
      "pool phases", testing_support::phase_diagram(all_pooled_host_phases(), all_pooled_host_events(), next));
}

}  // namespace
}  // namespace muster::launcherd::pooled_host_phase_test
