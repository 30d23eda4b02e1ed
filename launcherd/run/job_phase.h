// The phases of one attempt of a job as a table: (phase, event) -> next phase and action. Pure; the table is in
// job_phase.cc and nowhere else. Core asks the table for every change and then performs the action.
//
// A pair that is not in the table must not happen. If it does, Core ignores the event.
// Suspended (Ctrl-Z) is no phase, because a job may be suspended in each of them.
// docs/design.md shows the table as a diagram.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace muster::launcherd::inline run {

// The phases stand in the order in which a job passes through them.
enum class JobPhase {
  kConnecting,  // agents are started, or come back
  kPreparing,   // each agent chooses its network interface
  kStaging,     // files are sent to the hosts
  kSharing,     // the owner decides what the job may use of its hosts
  kLaunching,   // the agents were sent their ranks
  kRunning,     // the agents have tried to start every rank
  kStopping,    // ranks have the grace time to end
  kKilling,     // ranks are killed at once
  kFinished,    // final: the outcome was reported
};

enum class RunEvent {
  kHostsUp,        // every host's agent is up
  kHostsPrepared,  // every agent has sent Prepared
  kFilesStaged,    // all files are on the hosts, or there are none
  kPlanned,        // each host's ranks are planned
  kRanksTried,     // the last agent has tried to start its ranks; happens once
  kStop,           // a user, a limit, a rank or a host ends the job
  kKill,           // a user asks a second time to stop the job
  kLeave,          // a user asks a third time to stop the job, which may end before its agents do
  kHostsGone,      // no process is left, and all output that the job waits for was read
};

enum class RunAction {
  kNone,           // only the phase changes
  kIgnore,         // the event came too late: nothing changes
  kPrepare,        // send Prepare to the agents
  kStage,          // send files
  kShare,          // ask for the shares of the hosts
  kLaunch,         // send ranks to the agents
  kReportRunning,  // report that the ranks run
  kEndStart,       // cancel the start on all hosts
  kStopRanks,      // send the stop with a grace time
  kKillRanks,      // send the stop without a grace time
  kFinish,         // report the outcome
};

struct JobPhaseChange {
  JobPhase to;
  RunAction action;
  friend bool operator==(const JobPhaseChange&, const JobPhaseChange&) = default;
};

// nullopt if the event cannot happen in that phase.
std::optional<JobPhaseChange> next_phase(JobPhase from, RunEvent event);

// True if this launcher has not sent ranks to any host yet.
constexpr bool is_before_launch(JobPhase phase) {
  return phase < JobPhase::kLaunching;
}
// True if the job is being stopped, or is over.
constexpr bool is_ending(JobPhase phase) {
  return phase >= JobPhase::kStopping;
}

std::string_view name_of(JobPhase phase);
std::string_view name_of(RunEvent event);
std::string_view name_of(RunAction action);
std::span<const JobPhase> all_job_phases();
std::span<const RunEvent> all_run_events();

}  // namespace muster::launcherd::run
