#include "launcherd/agents/kept_agent_phase.h"

#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/unit/support/phase_diagram.h"
#include "tests/unit/support/phase_table.h"

namespace muster::launcherd::kept_agent_phase_test {
namespace {

using Phase = KeptAgentPhase;
using Event = KeptAgentEvent;
using Action = KeptAgentAction;
using Steps = std::map<Event, std::pair<Phase, Action>>;

// Every pair, written down a second time: a change of the table is either meant or found here. An event that a phase
// does not list has no meaning in it.
const std::map<Phase, Steps> kExpected = {
    {Phase::kStarting,
     {{Event::kHello, {Phase::kOpening, Action::kSendOpen}},
      {Event::kFailStart, {Phase::kGone, Action::kReportFailed}},
      {Event::kEnd, {Phase::kEnded, Action::kReportGone}},
      {Event::kUnreadable, {Phase::kStarting, Action::kReportUnreadable}},
      {Event::kLeave, {Phase::kGone, Action::kLetGo}},
      {Event::kDrop, {Phase::kGone, Action::kLetGo}}}},
    {Phase::kOpening,
     {{Event::kOpened, {Phase::kOpen, Action::kReportUp}},
      {Event::kRefused, {Phase::kGone, Action::kReportRefused}},
      {Event::kEnd, {Phase::kEnded, Action::kReportGone}},
      {Event::kUnreadable, {Phase::kOpening, Action::kReportUnreadable}},
      {Event::kLeave, {Phase::kClosing, Action::kSendLeave}},
      {Event::kDrop, {Phase::kGone, Action::kLetGo}}}},
    {Phase::kOpen,
     {{Event::kClosed, {Phase::kEnded, Action::kReportGone}},
      {Event::kEnd, {Phase::kEnded, Action::kReportGone}},
      {Event::kUnreadable, {Phase::kOpen, Action::kReportUnreadable}},
      {Event::kLeave, {Phase::kClosing, Action::kSendLeave}},
      {Event::kDrop, {Phase::kGone, Action::kLetGo}}}},
    {Phase::kEnded,
     {{Event::kUnreadable, {Phase::kEnded, Action::kReportUnreadable}},
      {Event::kLeave, {Phase::kGone, Action::kLetGo}},
      {Event::kDrop, {Phase::kGone, Action::kLetGo}}}},
    {Phase::kClosing,
     {{Event::kClosed, {Phase::kIdle, Action::kNone}},
      {Event::kEnd, {Phase::kGone, Action::kLetGo}},
      {Event::kUnreadable, {Phase::kGone, Action::kLetGo}},
      {Event::kTake, {Phase::kTakenClosing, Action::kNone}},
      {Event::kDrop, {Phase::kGone, Action::kLetGo}}}},
    {Phase::kIdle,
     {{Event::kEnd, {Phase::kGone, Action::kLetGo}},
      {Event::kUnreadable, {Phase::kGone, Action::kLetGo}},
      {Event::kTake, {Phase::kTaken, Action::kNone}},
      {Event::kDrop, {Phase::kGone, Action::kLetGo}}}},
    {Phase::kTaken,
     {{Event::kEnd, {Phase::kGone, Action::kReplace}},
      {Event::kUnreadable, {Phase::kGone, Action::kReplace}},
      {Event::kBegin, {Phase::kTakenOpening, Action::kSendOpen}},
      {Event::kLeave, {Phase::kIdle, Action::kNone}},
      {Event::kDrop, {Phase::kGone, Action::kLetGo}}}},
    {Phase::kTakenClosing,
     {{Event::kClosed, {Phase::kTakenOpening, Action::kSendOpen}},
      {Event::kEnd, {Phase::kGone, Action::kReplace}},
      {Event::kUnreadable, {Phase::kGone, Action::kReplace}},
      {Event::kLate, {Phase::kGone, Action::kReplace}},
      {Event::kBegin, {Phase::kTakenClosing, Action::kAwaitClose}},
      {Event::kLeave, {Phase::kClosing, Action::kNone}},
      {Event::kDrop, {Phase::kGone, Action::kLetGo}}}},
    {Phase::kTakenOpening,
     {{Event::kOpened, {Phase::kOpen, Action::kReportUp}},
      {Event::kRefused, {Phase::kGone, Action::kReplace}},
      {Event::kEnd, {Phase::kGone, Action::kReplace}},
      {Event::kUnreadable, {Phase::kGone, Action::kReplace}},
      {Event::kLate, {Phase::kGone, Action::kReplace}},
      {Event::kLeave, {Phase::kClosing, Action::kSendLeave}},
      {Event::kDrop, {Phase::kGone, Action::kLetGo}}}},
    {Phase::kGone, {}},
};

template <typename Check>
void for_each_pair(Check check) {
  testing_support::for_each_pair(all_kept_agent_phases(), all_kept_agent_events(), check);
}

std::set<Phase> reachable(Phase from) {
  return testing_support::reachable_phases(from, all_kept_agent_events());
}

// True if the agent may have a job: OpenJob was sent, and no JobClosed has answered a Leave.
bool may_have_job(Phase phase) {
  return phase == Phase::kOpening || phase == Phase::kOpen || phase == Phase::kClosing ||
         phase == Phase::kTakenClosing || phase == Phase::kTakenOpening;
}

TEST(KeptAgentPhase, HasTheExpectedStepForEveryPair) {
  ASSERT_EQ(kExpected.size(), all_kept_agent_phases().size());
  for_each_pair([](Phase from, Event event, const std::optional<KeptAgentStep>& step) {
    const auto expected = kExpected.at(from).find(event);
    ASSERT_EQ(step.has_value(), expected != kExpected.at(from).end());
    if (!step) return;
    EXPECT_EQ(step->to, expected->second.first);
    EXPECT_EQ(step->action, expected->second.second);
  });
}

TEST(KeptAgentPhase, IsReachedFromTheFirstPhaseAndLeadsToTheLast) {
  EXPECT_EQ(reachable(Phase::kStarting).size(), all_kept_agent_phases().size());
  for (const Phase phase : all_kept_agent_phases()) {
    EXPECT_TRUE(reachable(phase).contains(Phase::kGone)) << name_of(phase);
  }
}

TEST(KeptAgentPhase, NumbersOfPhasesAndEventsMatchTheirPositions) {
  testing_support::expect_numbered_by_position(all_kept_agent_phases());
  testing_support::expect_numbered_by_position(all_kept_agent_events());
  EXPECT_EQ(name_of(Phase::kGone), "gone");
  EXPECT_EQ(name_of(Event::kDrop), "drop");
}

TEST(KeptAgentPhase, FactsOfPhasesDoNotContradict) {
  for (const Phase phase : all_kept_agent_phases()) {
    EXPECT_TRUE(!is_taken(phase) || is_used(phase)) << name_of(phase);
    EXPECT_FALSE(is_free(phase) && is_used(phase)) << name_of(phase);
    EXPECT_EQ(is_free(phase), next_step(phase, Event::kTake).has_value()) << name_of(phase);
  }
}

// No used phase is left behind when its generation ends, and no agent is forgotten.
TEST(KeptAgentPhase, EveryUsedAgentCanBeLeftAndEveryAgentDropped) {
  for (const Phase phase : all_kept_agent_phases()) {
    const auto left = next_step(phase, Event::kLeave);
    EXPECT_EQ(left.has_value(), is_used(phase)) << name_of(phase);
    EXPECT_FALSE(left && is_used(left->to)) << name_of(phase);
    const auto dropped = next_step(phase, Event::kDrop);
    EXPECT_EQ(dropped.has_value(), phase != Phase::kGone) << name_of(phase);
    EXPECT_FALSE(dropped && dropped->to != Phase::kGone) << name_of(phase);
  }
}

TEST(KeptAgentPhase, ActionsFitThePhasesBetweenWhichTheyStand) {
  for_each_pair([](Phase from, Event event, const std::optional<KeptAgentStep>& step) {
    if (!step) return;
    const Action action = step->action;
    const bool fails = action == Action::kReportFailed || action == Action::kReportRefused;
    const bool reports =
        fails || action == Action::kReportUp || action == Action::kReportGone || action == Action::kReportUnreadable;
    EXPECT_TRUE(!reports || is_used(from)) << "no generation would hear it";
    const bool is_let_go = fails || action == Action::kLetGo || action == Action::kReplace;
    EXPECT_EQ(is_let_go, step->to == Phase::kGone);
    EXPECT_EQ(action == Action::kReplace, is_let_go && is_taken(from) && event != Event::kDrop);
    EXPECT_EQ(action == Action::kReportUp, event == Event::kOpened);
    EXPECT_EQ(action == Action::kSendLeave,
              event == Event::kLeave && may_have_job(from) && is_used(from) && from != Phase::kTakenClosing);
  });
}

// An agent never gets a second OpenJob before it has closed the first.
TEST(KeptAgentPhase, OpenJobIsSentOnlyToAnAgentWithoutAJob) {
  for_each_pair([](Phase from, Event event, const std::optional<KeptAgentStep>& step) {
    if (!step || step->action != Action::kSendOpen) return;
    EXPECT_TRUE(!may_have_job(from) || event == Event::kClosed);
    EXPECT_TRUE(may_have_job(step->to));
  });
}

TEST(KeptAgentPhase, DesignShowsTheTable) {
  const auto next = [](Phase from, Event event) {
    const auto step = next_step(from, event);
    return step ? name_of(step->to) : std::string_view();
  };
  testing_support::expect_in_design(
      "kept agent phases", testing_support::phase_diagram(all_kept_agent_phases(), all_kept_agent_events(), next));
}

}  // namespace
}  // namespace muster::launcherd::kept_agent_phase_test
