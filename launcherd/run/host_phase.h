// The phases of one host of a job as a table: (phase, event) -> next phase and action. Pure; the table is in
// host_phase.cc and nowhere else. Core asks the table for every change and then performs the action.
//
// A pair that is not in the table must not happen. If it does, apply() ignores the event.
// docs/design.md shows the table as a diagram.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace muster::launcherd::inline run {

enum class HostPhase {
  kBootstrapping,  // ssh or local start
  kJoining,        // the agent runs but has sent no Hello
  kUp,             // the agent has sent Hello
  kPrepared,       // the agent has sent Prepared: its network interface is known
  kLaunched,       // the launcher has sent the agent its ranks
  kDraining,       // no process of the job is left on the host, but output is missing
  kEmpty,          // final: no process is left, and no more output comes
  kUnused,         // final: the job does not need this host, for example because another entry is the same host
  kFailed,         // final: the host did not come up
  kSweeping,       // the agent was lost; a sweep searches the host for processes that the agent left
  kLost,           // final: the host was lost after it came up
};

enum class HostEvent {
  kAgentStarted,    // the bootstrap has started the agent
  kAgentUp,         // Hello came
  kNotNeeded,       // another entry is the same host, or other hosts have enough slots
  kPrepared,        // Prepared came
  kLaunch,          // ranks are assigned to the host
  kRanksGone,       // HostEmpty came
  kOutputComplete,  // all output of the host's ranks was read
  kOutputCut,       // the agent has ended before it had sent all output
  kStartFailed,     // the agent could not be started, or cannot be used
  kStartOverdue,    // the time for the start is over, and the host has not taken the step that the job waits for
  kStartEnded,      // the job's start has ended, and no rank runs on the host
  kAgentGone,       // the agent has ended
  kUnreadable,      // the agent or the launcher cannot read the other's messages
  kLeaseOver,       // the agent has been silent for the whole lease
  kStopOverdue,     // the agent has not confirmed in time that its ranks are gone
  kSwept,           // the search of the host has ended
};

enum class HostAction {
  kNone,            // only the phase may change
  kIgnore,          // the event came too late or twice: nothing changes
  kFailStart,       // report that the host did not come up, and drop its agent
  kReportLate,      // report that the host did not come up in time
  kDrop,            // the agent is not needed: drop it
  kLeave,           // the agent is not needed: send Leave
  kReadRest,        // read the output that the agent has sent
  kLoseOutput,      // report that output is missing
  kSweep,           // report the host and its ranks as lost, and search it for their processes
  kLoseSilent,      // report the host and its ranks as lost; whether processes are left is unknown
  kLoseUnreadable,  // report the host and its ranks as lost; the agent was sent the order to end the ranks
};

struct HostTransition {
  HostPhase to;
  HostAction action;
  friend bool operator==(const HostTransition&, const HostTransition&) = default;
};

// nullopt if the event cannot happen in that phase.
std::optional<HostTransition> next_phase(HostPhase from, HostEvent event);

// True if the agent has not sent Hello.
bool is_waiting(HostPhase phase);
// True if the agent must answer pings.
bool is_watched(HostPhase phase);
// True if no process of the job runs on the host, or if the launcher can no longer end such processes.
bool is_without_processes(HostPhase phase);

std::string_view name_of(HostPhase phase);
std::string_view name_of(HostEvent event);
std::string_view name_of(HostAction action);
std::span<const HostPhase> all_host_phases();
std::span<const HostEvent> all_host_events();

// The phase of one host. Only the table changes it.
class HostState {
 public:
  operator HostPhase() const { return phase_; }  // NOLINT(google-explicit-constructor): reads like the enum
  // Moves to the next phase and returns what the caller must do.
  HostAction apply(HostEvent event);

 private:
  HostPhase phase_ = HostPhase::kBootstrapping;
};

}  // namespace muster::launcherd::run
