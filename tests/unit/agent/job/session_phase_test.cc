#include "agent/job/session_phase.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/support/phase_diagram.h"
#include "tests/unit/support/phase_table.h"

namespace muster::agent::session_phase_test {
namespace {

using enum SessionPhase;
using enum SessionAction;
using Row = std::vector<std::optional<SessionStep>>;
constexpr std::nullopt_t kNo = std::nullopt;

SessionStep step(SessionPhase to, SessionAction action) {
  return {to, action};
}

// Every pair, written a second time, so that each change of the table is deliberate. The columns are those of
// all_session_events():
// Launch, AddWorld, stop, launcher gone, last rank over, warden ended, JobEmpty, all arrived, close, close due.
const std::map<SessionPhase, Row> kExpected = {
    {kPreparing,
     {step(kRunning, kStartRanks), kNo, step(kCancelled, kEndGpuWait), step(kDone, kLeave), kNo,
      step(kWardenless, kReplaceWarden), step(kWardenless, kCollect), kNo, kNo, kNo}},
    {kCancelled,
     {step(kStopping, kStartRanks), kNo, step(kCancelled, kEndGpuWait), step(kDone, kLeave), kNo,
      step(kWardenless, kReplaceWarden), step(kWardenless, kCollect), kNo, kNo, kNo}},
    {kWardenless,
     {step(kReported, kStartRanks), kNo, step(kWardenless, kEndGpuWait), step(kDone, kLeave), kNo, kNo,
      step(kWardenless, kCollect), step(kWardenless, kReport), kNo, kNo}},
    {kRunning,
     {kNo, step(kRunning, kAddRanks), step(kStopping, kStopRanks), step(kAbandoned, kAbandonRanks),
      step(kEnding, kFinish), step(kStopping, kReplaceWarden), step(kDraining, kCollect), kNo, kNo, kNo}},
    {kEnding,
     {kNo, kNo, step(kStopping, kStopAll), step(kAbandoned, kAbandonRanks), kNo, step(kStopping, kReplaceWarden),
      step(kDraining, kCollect), kNo, kNo, kNo}},
    {kStopping,
     {kNo, kNo, step(kStopping, kStopAll), step(kAbandoned, kAbandonRanks), kNo, step(kStopping, kReplaceWarden),
      step(kDraining, kCollect), kNo, kNo, kNo}},
    {kAbandoned,
     {kNo, kNo, step(kAbandoned, kStopAll), kNo, kNo, step(kAbandoned, kReplaceWarden), step(kUnheard, kCollect), kNo,
      kNo, kNo}},
    {kDraining,
     {kNo, kNo, step(kDraining, kEndGpuWait), step(kUnheard, kAbandonRanks), kNo, kNo, step(kDraining, kCollect),
      step(kReported, kReport), kNo, kNo}},
    {kUnheard, {kNo, kNo, kNo, kNo, kNo, kNo, step(kUnheard, kCollect), step(kDone, kReportAndLeave), kNo, kNo}},
    {kReported, {kNo, kNo, kNo, step(kDone, kLeave), kNo, kNo, kNo, kNo, kNo, kNo}},
    {kDone, {kNo, kNo, kNo, kNo, kNo, kNo, kNo, kNo, step(kClosing, kDismissWarden), kNo}},
    {kClosing, {kNo, kNo, kNo, kNo, kNo, step(kClosed, kRemove), kNo, kNo, kNo, step(kClosed, kRemove)}},
    {kClosed, {kNo, kNo, kNo, kNo, kNo, kNo, kNo, kNo, kNo, kNo}},
};

std::string text_of(const std::optional<SessionStep>& each) {
  if (!each) return "not allowed";
  return std::string(name_of(each->to)) + " / " + std::string(name_of(each->action));
}

TEST(SessionPhase, HasTheExpectedStepForEveryPair) {
  ASSERT_EQ(kExpected.size(), all_session_phases().size());
  for (const SessionPhase from : all_session_phases()) {
    const Row& row = kExpected.at(from);
    ASSERT_EQ(row.size(), all_session_events().size()) << name_of(from);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const SessionEvent event = all_session_events()[i];
      EXPECT_EQ(text_of(next_step(from, event)), text_of(row[i])) << name_of(from) << ", " << name_of(event);
    }
  }
}

std::set<SessionPhase> reachable(SessionPhase from) {
  return testing_support::reachable_phases(from, all_session_events());
}

TEST(SessionPhase, ReachesEveryPhaseAndCanAlwaysEnd) {
  EXPECT_EQ(reachable(kPreparing).size(), all_session_phases().size());
  for (const SessionPhase phase : all_session_phases()) {
    EXPECT_TRUE(reachable(phase).contains(kClosed)) << name_of(phase);
    EXPECT_EQ(reachable(phase).size() == 1, phase == kClosed) << name_of(phase);
  }
}

TEST(SessionPhase, NeverReturnsFromTheEndOfTheRanks) {
  for (const SessionPhase phase : {kEnding, kStopping, kAbandoned, kDraining, kUnheard, kReported, kDone}) {
    EXPECT_FALSE(reachable(phase).contains(kRunning)) << name_of(phase);
    EXPECT_FALSE(next_step(phase, SessionEvent::kAddWorld)) << name_of(phase);
    EXPECT_FALSE(next_step(phase, SessionEvent::kLaunch)) << name_of(phase);
  }
  // Each way to kDone asks the owner to close the session, and only these ways.
  for (const SessionPhase from : all_session_phases()) {
    for (const SessionEvent event : all_session_events()) {
      const auto next = next_step(from, event);
      if (!next) continue;
      EXPECT_EQ(next->to == kDone, next->action == kLeave || next->action == kReportAndLeave) << name_of(from);
    }
  }
}

TEST(SessionPhase, LeaseAndWardenBelongToPhases) {
  struct Facts {
    bool launched, lease, warden, must_end;
    bool operator==(const Facts&) const = default;
  };
  const std::map<SessionPhase, Facts> expected = {
      {kPreparing, {false, true, true, false}},   {kCancelled, {false, true, true, true}},
      {kWardenless, {false, true, false, false}}, {kRunning, {true, true, true, false}},
      {kEnding, {true, true, true, false}},       {kStopping, {true, true, true, true}},
      {kAbandoned, {true, false, true, true}},    {kDraining, {true, true, false, false}},
      {kUnheard, {true, false, false, false}},    {kReported, {true, true, false, false}},
      {kDone, {false, false, false, false}},      {kClosing, {false, false, false, false}},
      {kClosed, {false, false, false, false}},
  };
  for (const SessionPhase phase : all_session_phases()) {
    const Facts facts{has_launched(phase), has_lease(phase), needs_warden(phase), must_end_ranks(phase)};
    EXPECT_TRUE(facts == expected.at(phase)) << name_of(phase);
  }
}

TEST(SessionPhase, DesignPageShowsTheTable) {
  testing_support::expect_in_design(
      "session phases", testing_support::phase_diagram(
                            all_session_phases(), all_session_events(), [](SessionPhase from, SessionEvent event) {
                              const auto next = next_step(from, event);
                              return next && next->to != from ? name_of(next->to) : std::string_view();
                            }));
}

}  // namespace
}  // namespace muster::agent::session_phase_test
