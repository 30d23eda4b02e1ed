#include "launcherd/run/job_phase.h"

#include <array>
#include <map>
#include <set>
#include <string_view>

#include <gtest/gtest.h>

#include "tests/unit/support/phase_diagram.h"

namespace muster::launcherd::job_phase_test {
namespace {

using enum JobPhase;
using enum RunAction;
using Cell = std::optional<JobPhaseChange>;

constexpr Cell kNo = std::nullopt;
constexpr Cell kEndsStart = JobPhaseChange{kStopping, kEndStart};
constexpr Cell kStops = JobPhaseChange{kStopping, kStopRanks};
constexpr Cell kEnds = JobPhaseChange{kFinished, kFinish};

constexpr Cell reports(JobPhase to) {
  return JobPhaseChange{to, kReportRunning};
}
constexpr Cell ignores(JobPhase phase) {
  return JobPhaseChange{phase, kIgnore};
}
constexpr Cell moves(JobPhase to, RunAction action) {
  return JobPhaseChange{to, action};
}

// Every pair, written down a second time. A changed table is intended, or this test finds it. Columns as
// all_run_events(): hosts up, hosts prepared, files staged, planned, ranks tried, stop, kill, leave, hosts gone.
const std::map<JobPhase, std::array<Cell, 9>> kExpected = {
    {kConnecting, {moves(kPreparing, kPrepare), kNo, kNo, kNo, reports(kConnecting), kEndsStart, kNo, kNo, kEnds}},
    {kPreparing, {kNo, moves(kStaging, kStage), kNo, kNo, reports(kPreparing), kEndsStart, kNo, kNo, kEnds}},
    {kStaging, {kNo, kNo, moves(kSharing, kShare), kNo, reports(kStaging), kEndsStart, kNo, kNo, kEnds}},
    {kSharing, {kNo, kNo, kNo, moves(kLaunching, kLaunch), reports(kSharing), kEndsStart, kNo, kNo, kEnds}},
    {kLaunching, {kNo, kNo, kNo, kNo, reports(kRunning), kStops, kNo, kNo, kEnds}},
    {kRunning, {kNo, kNo, kNo, kNo, kNo, kStops, kNo, kNo, kEnds}},
    {kStopping, {kNo, kNo, kNo, kNo, reports(kStopping), ignores(kStopping), moves(kKilling, kKillRanks), kNo, kEnds}},
    {kKilling, {kNo, kNo, kNo, kNo, reports(kKilling), ignores(kKilling), kNo, kEnds, kEnds}},
    {kFinished, {kNo, kNo, kNo, kNo, kNo, ignores(kFinished), kNo, kNo, ignores(kFinished)}},
};

TEST(JobPhase, MatchesEveryPairOfPhaseAndEvent) {
  ASSERT_EQ(kExpected.size(), all_job_phases().size());
  ASSERT_EQ(all_run_events().size(), kExpected.at(kConnecting).size());
  for (const JobPhase from : all_job_phases()) {
    for (std::size_t i = 0; i < all_run_events().size(); ++i) {
      EXPECT_EQ(next_phase(from, all_run_events()[i]), kExpected.at(from)[i])
          << name_of(from) << ", " << name_of(all_run_events()[i]);
    }
  }
}

TEST(JobPhase, NeverGoesBackAndEachPhaseCanBeStopped) {
  for (const JobPhase from : all_job_phases()) {
    for (const RunEvent event : all_run_events()) {
      if (const auto next = next_phase(from, event)) {
        EXPECT_GE(next->to, from) << name_of(from) << ", " << name_of(event);
      }
    }
    EXPECT_TRUE(next_phase(from, RunEvent::kStop)) << name_of(from);
    EXPECT_EQ(is_ending(next_phase(from, RunEvent::kStop)->to), true) << name_of(from);
    EXPECT_TRUE(next_phase(from, RunEvent::kHostsGone)) << name_of(from);
  }
}

TEST(JobPhase, GroupsOfPhasesAreRanges) {
  EXPECT_TRUE(is_before_launch(kConnecting) && is_before_launch(kSharing));
  EXPECT_FALSE(is_before_launch(kLaunching));
  EXPECT_FALSE(is_ending(kRunning));
  EXPECT_TRUE(is_ending(kStopping) && is_ending(kKilling) && is_ending(kFinished));
}

TEST(JobPhase, DesignPageShowsTheTable) {
  testing_support::expect_in_design(
      "job phases",
      testing_support::phase_diagram(all_job_phases(), all_run_events(), [](JobPhase from, RunEvent event) {
        const Cell next = next_phase(from, event);
        return next && next->to != from ? name_of(next->to) : std::string_view();
      }));
}

TEST(JobPhase, NamesAreDifferent) {
  std::set<std::string_view> names;
  for (const JobPhase phase : all_job_phases()) names.insert(name_of(phase));
  EXPECT_EQ(names.size(), all_job_phases().size());
  names.clear();
  for (const RunEvent event : all_run_events()) names.insert(name_of(event));
  EXPECT_EQ(names.size(), all_run_events().size());
  EXPECT_EQ(name_of(kFinish), "finish");
}

}  // namespace
}  // namespace muster::launcherd::job_phase_test
