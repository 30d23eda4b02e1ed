#include "launcherd/run/host_phase.h"

#include <array>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/support/phase_diagram.h"

namespace muster::launcherd::host_phase_test {
namespace {

using enum HostPhase;
using enum HostAction;
using Cell = std::optional<HostTransition>;
using Row = std::map<HostEvent, Cell>;
using On = HostEvent;

constexpr HostTransition kFails{kFailed, kFailStart};

// Every pair that does something, written down a second time. A changed table is intended, or this test finds it.
const std::map<HostPhase, Row> kMoves = {
    {kBootstrapping,
     {{On::kAgentStarted, {{kJoining, kNone}}},
      {On::kAgentUp, {{kUp, kNone}}},
      {On::kNotNeeded, {{kUnused, kNone}}},
      {On::kStartFailed, kFails},
      {On::kStartOverdue, {{kFailed, kReportLate}}},
      {On::kStartEnded, {{kFailed, kDrop}}},
      {On::kAgentGone, kFails},
      {On::kUnreadable, kFails}}},
    {kJoining,
     {{On::kAgentUp, {{kUp, kNone}}},
      {On::kNotNeeded, {{kUnused, kNone}}},
      {On::kStartFailed, kFails},
      {On::kStartOverdue, {{kFailed, kReportLate}}},
      {On::kStartEnded, {{kFailed, kDrop}}},
      {On::kAgentGone, kFails},
      {On::kUnreadable, kFails}}},
    {kUp,
     {{On::kNotNeeded, {{kUnused, kNone}}},
      {On::kPrepared, {{kPrepared, kNone}}},
      {On::kLaunch, {{kLaunched, kNone}}},
      {On::kRanksGone, {{kDraining, kNone}}},
      {On::kStartFailed, kFails},
      {On::kStartOverdue, {{kFailed, kReportLate}}},
      {On::kStartEnded, {{kUnused, kLeave}}},
      {On::kAgentGone, kFails},
      {On::kUnreadable, kFails},
      {On::kLeaseOver, {{kLost, kLoseSilent}}}}},
    {kPrepared,
     {{On::kLaunch, {{kLaunched, kNone}}},
      {On::kRanksGone, {{kDraining, kNone}}},
      {On::kStartFailed, kFails},
      {On::kStartEnded, {{kUnused, kLeave}}},
      {On::kAgentGone, kFails},
      {On::kUnreadable, kFails},
      {On::kLeaseOver, {{kLost, kLoseSilent}}}}},
    {kLaunched,
     {{On::kRanksGone, {{kDraining, kNone}}},
      {On::kAgentGone, {{kSweeping, kSweep}}},
      {On::kUnreadable, {{kLost, kLoseUnreadable}}},
      {On::kLeaseOver, {{kLost, kLoseSilent}}},
      {On::kStopOverdue, {{kLost, kLoseSilent}}}}},
    {kDraining,
     {{On::kLaunch, {{kLaunched, kNone}}},
      {On::kOutputComplete, {{kEmpty, kNone}}},
      {On::kOutputCut, {{kEmpty, kLoseOutput}}},
      {On::kAgentGone, {{kDraining, kReadRest}}},
      {On::kUnreadable, {{kEmpty, kLoseOutput}}},
      {On::kLeaseOver, {{kEmpty, kLoseOutput}}}}},
    {kEmpty, {{On::kLaunch, {{kLaunched, kNone}}}}},
    {kUnused, {}},
    {kFailed, {{On::kAgentStarted, {{kFailed, kDrop}}}}},
    {kSweeping, {{On::kSwept, {{kLost, kNone}}}}},
    {kLost, {}},
};

// Every pair that must be ignored. A pair in neither table cannot happen.
const std::map<HostPhase, std::set<HostEvent>> kIgnored = {
    {kBootstrapping, {On::kStopOverdue}},
    {kJoining, {On::kStopOverdue}},
    {kUp, {On::kOutputComplete, On::kOutputCut, On::kStopOverdue}},
    {kPrepared, {On::kPrepared, On::kOutputComplete, On::kOutputCut, On::kStartOverdue, On::kStopOverdue}},
    {kLaunched, {On::kPrepared, On::kOutputComplete, On::kOutputCut}},
    {kDraining, {On::kPrepared, On::kRanksGone, On::kStartOverdue, On::kStartEnded, On::kStopOverdue}},
    {kEmpty,
     {On::kPrepared, On::kRanksGone, On::kOutputComplete, On::kOutputCut, On::kStartOverdue, On::kStartEnded,
      On::kAgentGone, On::kUnreadable, On::kStopOverdue}},
    {kUnused,
     {On::kNotNeeded, On::kPrepared, On::kRanksGone, On::kOutputComplete, On::kOutputCut, On::kStartOverdue,
      On::kStartEnded, On::kAgentGone, On::kUnreadable, On::kStopOverdue}},
    {kFailed,
     {On::kAgentUp, On::kOutputComplete, On::kOutputCut, On::kStartFailed, On::kStartOverdue, On::kStartEnded,
      On::kAgentGone, On::kUnreadable, On::kStopOverdue}},
    {kSweeping,
     {On::kAgentUp, On::kOutputComplete, On::kOutputCut, On::kStartOverdue, On::kStartEnded, On::kAgentGone,
      On::kUnreadable, On::kStopOverdue}},
    {kLost,
     {On::kAgentUp, On::kOutputComplete, On::kOutputCut, On::kStartOverdue, On::kStartEnded, On::kAgentGone,
      On::kUnreadable, On::kStopOverdue}},
};

TEST(HostPhase, MatchesEveryPairOfPhaseAndEvent) {
  for (const HostPhase from : all_host_phases()) {
    for (const HostEvent event : all_host_events()) {
      const Row& row = kMoves.at(from);
      Cell expected;
      if (const auto found = row.find(event); found != row.end()) {
        expected = found->second;
        EXPECT_FALSE(kIgnored.at(from).contains(event)) << name_of(from) << ", " << name_of(event);
      } else if (kIgnored.at(from).contains(event)) {
        expected = HostTransition{from, kIgnore};
      }
      const Cell actual = next_phase(from, event);
      EXPECT_EQ(actual, expected) << name_of(from) << ", " << name_of(event) << ": "
                                  << (actual ? name_of(actual->to) : "nothing");
    }
  }
}

TEST(HostPhase, EveryPhaseCanBeReachedAndCanEnd) {
  const std::set<HostPhase> final = {kEmpty, kUnused, kFailed, kLost};
  const auto reachable = [](HostPhase from) {
    std::set<HostPhase> seen = {from};
    std::vector<HostPhase> todo = {from};
    while (!todo.empty()) {
      const HostPhase phase = todo.back();
      todo.pop_back();
      for (const HostEvent event : all_host_events()) {
        const Cell next = next_phase(phase, event);
        if (next && seen.insert(next->to).second) todo.push_back(next->to);
      }
    }
    return seen;
  };
  EXPECT_EQ(reachable(kBootstrapping).size(), all_host_phases().size());
  for (const HostPhase phase : all_host_phases()) {
    bool can_end = false;
    for (const HostPhase each : reachable(phase)) can_end = can_end || final.contains(each);
    EXPECT_TRUE(can_end) << name_of(phase);
  }
}

TEST(HostPhase, GroupsOfPhasesDoNotOverlap) {
  for (const HostPhase phase : all_host_phases()) {
    EXPECT_FALSE(is_waiting(phase) && is_watched(phase)) << name_of(phase);
    EXPECT_FALSE(is_waiting(phase) && is_without_processes(phase)) << name_of(phase);
    EXPECT_TRUE(phase == kSweeping || is_waiting(phase) || is_watched(phase) || is_without_processes(phase))
        << name_of(phase);
  }
}

TEST(HostPhase, DesignPageShowsTheTable) {
  testing_support::expect_in_design(
      "host phases",
      testing_support::phase_diagram(all_host_phases(), all_host_events(), [](HostPhase from, HostEvent event) {
        const Cell next = next_phase(from, event);
        return next && next->to != from ? name_of(next->to) : std::string_view();
      }));
}

TEST(HostState, MovesByTheTableAndIgnoresTheRest) {
  HostState state;
  EXPECT_EQ(state, kBootstrapping);
  EXPECT_EQ(state.apply(On::kAgentUp), kNone);
  EXPECT_EQ(state.apply(On::kSwept), kIgnore);  // it cannot happen
  EXPECT_EQ(state, kUp);
  EXPECT_EQ(state.apply(On::kAgentGone), kFailStart);
  EXPECT_EQ(state, kFailed);
}

TEST(HostPhase, NamesAreDifferent) {
  std::set<std::string_view> names;
  for (const HostPhase phase : all_host_phases()) names.insert(name_of(phase));
  EXPECT_EQ(names.size(), all_host_phases().size());
  names.clear();
  for (const HostEvent event : all_host_events()) names.insert(name_of(event));
  EXPECT_EQ(names.size(), all_host_events().size());
  EXPECT_EQ(name_of(kLoseUnreadable), "lose unreadable");
}

}  // namespace
}  // namespace muster::launcherd::host_phase_test
