// The table of a job's phases, and the functions that read it.
#include "launcherd/run/job_phase.h"

#include <algorithm>
#include <array>

namespace muster::launcherd::inline run {
namespace {

using enum JobPhase;

struct JobPhaseRow {
  JobPhase from;
  RunEvent event;
  JobPhaseChange change;
};

// Agents of a resumed job may report their ranks before this launcher has launched the job. So kRanksTried may come in
// any phase.
constexpr auto kJobPhaseTable = std::to_array<JobPhaseRow>({
    {kConnecting, RunEvent::kHostsUp, {kPreparing, RunAction::kPrepare}},
    {kConnecting, RunEvent::kRanksTried, {kConnecting, RunAction::kReportRunning}},
    {kConnecting, RunEvent::kStop, {kStopping, RunAction::kEndStart}},
    {kConnecting, RunEvent::kHostsGone, {kFinished, RunAction::kFinish}},

    {kPreparing, RunEvent::kHostsPrepared, {kStaging, RunAction::kStage}},
    {kPreparing, RunEvent::kRanksTried, {kPreparing, RunAction::kReportRunning}},
    {kPreparing, RunEvent::kStop, {kStopping, RunAction::kEndStart}},
    {kPreparing, RunEvent::kHostsGone, {kFinished, RunAction::kFinish}},

    {kStaging, RunEvent::kFilesStaged, {kSharing, RunAction::kShare}},
    {kStaging, RunEvent::kRanksTried, {kStaging, RunAction::kReportRunning}},
    {kStaging, RunEvent::kStop, {kStopping, RunAction::kEndStart}},
    {kStaging, RunEvent::kHostsGone, {kFinished, RunAction::kFinish}},

    {kSharing, RunEvent::kPlanned, {kLaunching, RunAction::kLaunch}},
    {kSharing, RunEvent::kRanksTried, {kSharing, RunAction::kReportRunning}},
    {kSharing, RunEvent::kStop, {kStopping, RunAction::kEndStart}},
    {kSharing, RunEvent::kHostsGone, {kFinished, RunAction::kFinish}},

    {kLaunching, RunEvent::kRanksTried, {kRunning, RunAction::kReportRunning}},
    {kLaunching, RunEvent::kStop, {kStopping, RunAction::kStopRanks}},
    {kLaunching, RunEvent::kHostsGone, {kFinished, RunAction::kFinish}},

    {kRunning, RunEvent::kStop, {kStopping, RunAction::kStopRanks}},
    {kRunning, RunEvent::kHostsGone, {kFinished, RunAction::kFinish}},

    {kStopping, RunEvent::kRanksTried, {kStopping, RunAction::kReportRunning}},
    {kStopping, RunEvent::kStop, {kStopping, RunAction::kIgnore}},
    {kStopping, RunEvent::kKill, {kKilling, RunAction::kKillRanks}},
    {kStopping, RunEvent::kHostsGone, {kFinished, RunAction::kFinish}},

    {kKilling, RunEvent::kRanksTried, {kKilling, RunAction::kReportRunning}},
    {kKilling, RunEvent::kStop, {kKilling, RunAction::kIgnore}},
    {kKilling, RunEvent::kLeave, {kFinished, RunAction::kFinish}},
    {kKilling, RunEvent::kHostsGone, {kFinished, RunAction::kFinish}},

    {kFinished, RunEvent::kStop, {kFinished, RunAction::kIgnore}},
    {kFinished, RunEvent::kHostsGone, {kFinished, RunAction::kIgnore}},
});

constexpr std::array kJobPhases = {kConnecting, kPreparing, kStaging, kSharing, kLaunching,
                                   kRunning,    kStopping,  kKilling, kFinished};
constexpr std::array kJobPhaseNames = {"connecting", "preparing", "staging", "sharing", "launching",
                                       "running",    "stopping",  "killing", "finished"};
constexpr std::array kRunEvents = {RunEvent::kHostsUp, RunEvent::kHostsPrepared, RunEvent::kFilesStaged,
                                   RunEvent::kPlanned, RunEvent::kRanksTried,    RunEvent::kStop,
                                   RunEvent::kKill,    RunEvent::kLeave,         RunEvent::kHostsGone};
constexpr std::array kRunEventNames = {"hosts up", "hosts prepared", "files staged", "planned",   "ranks tried",
                                       "stop",     "kill",           "leave",        "hosts gone"};
constexpr std::array kRunActionNames = {"",           "ignore",     "prepare",        "stage",
                                        "share",      "launch",     "report running", "end start",
                                        "stop ranks", "kill ranks", "finish"};
static_assert(kJobPhases.size() == kJobPhaseNames.size() && kRunEvents.size() == kRunEventNames.size());

}  // namespace

std::optional<JobPhaseChange> next_phase(JobPhase from, RunEvent event) {
  const auto* const row = std::ranges::find_if(
      kJobPhaseTable, [&](const JobPhaseRow& each) { return each.from == from && each.event == event; });
  if (row == kJobPhaseTable.end()) return std::nullopt;
  return row->change;
}

std::string_view name_of(JobPhase phase) {
  return kJobPhaseNames[static_cast<std::size_t>(phase)];
}

std::string_view name_of(RunEvent event) {
  return kRunEventNames[static_cast<std::size_t>(event)];
}

std::string_view name_of(RunAction action) {
  return kRunActionNames[static_cast<std::size_t>(action)];
}

std::span<const JobPhase> all_job_phases() {
  return kJobPhases;
}

std::span<const RunEvent> all_run_events() {
  return kRunEvents;
}

}  // namespace muster::launcherd::run
