#include "agent/job/command_phase.h"

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/support/phase_table.h"

namespace muster::agent::command_phase_test {
namespace {

using Row = std::vector<std::optional<CommandStep>>;
using Action = CommandAction;
constexpr std::nullopt_t kNo = std::nullopt;

CommandStep step(CommandPhase to, Action action) {
  return {to, action};
}

// Every pair, written a second time. The columns are those of all_command_events():
// started, start failed, end, overdue, exited, drained.
std::map<CommandPhase, Row> expected() {
  using Phase = CommandPhase;
  return {
      {Phase::kStarting,
       {step(Phase::kRunning, Action::kReportStart), step(Phase::kOver, Action::kReportFailure),
        step(Phase::kCancelled, Action::kWait), kNo, step(Phase::kDraining, Action::kDrain), kNo}},
      {Phase::kCancelled,
       {step(Phase::kEnding, Action::kAskToEnd), step(Phase::kOver, Action::kReportFailure), kNo, kNo,
        step(Phase::kDraining, Action::kDrain), kNo}},
      {Phase::kRunning,
       {kNo, kNo, step(Phase::kEnding, Action::kAskToEnd), kNo, step(Phase::kDraining, Action::kDrain), kNo}},
      {Phase::kEnding,
       {kNo, kNo, kNo, step(Phase::kEnding, Action::kKill), step(Phase::kDraining, Action::kDrain), kNo}},
      {Phase::kDraining,
       {kNo, kNo, step(Phase::kOver, Action::kReportEnd), kNo, kNo, step(Phase::kOver, Action::kReportEnd)}},
      {Phase::kOver, {kNo, kNo, kNo, kNo, kNo, kNo}},
  };
}

std::string text_of(const std::optional<CommandStep>& each) {
  if (!each) return "not allowed";
  return std::string(name_of(each->to)) + " / " + std::string(name_of(each->action));
}

TEST(CommandPhase, HasTheExpectedStepForEveryPair) {
  const auto table = expected();
  ASSERT_EQ(table.size(), all_command_phases().size());
  for (const CommandPhase from : all_command_phases()) {
    const Row& row = table.at(from);
    ASSERT_EQ(row.size(), all_command_events().size()) << name_of(from);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const CommandEvent event = all_command_events()[i];
      EXPECT_EQ(text_of(next_step(from, event)), text_of(row[i])) << name_of(from) << ", " << name_of(event);
    }
  }
}

TEST(CommandPhase, EachPhaseCanBeReachedAndEnds) {
  for (const CommandPhase phase : all_command_phases()) {
    EXPECT_TRUE(testing_support::reachable_phases(CommandPhase::kStarting, all_command_events()).contains(phase));
    EXPECT_TRUE(testing_support::reachable_phases(phase, all_command_events()).contains(CommandPhase::kOver));
  }
}

}  // namespace
}  // namespace muster::agent::command_phase_test
