// The phases of a session of a job on one host, as a state table: (phase, event) -> next phase and action, or not
// allowed. Pure; the table is in session_phase.cc and nowhere else. JobSession asks it at each event and carries out
// the action.
//
//   preparing -> running -> ending -> draining -> reported -> done -> closing -> closed
//
// A stop leads from running to stopping. After the loss of the launcher, abandoned and unheard take the place of
// stopping and draining. docs/design.md shows the table as a diagram.
//
// If the table does not allow an event, the session ignores the event. It answers an ignored AddWorld with a refusal.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace muster::agent::inline job {

enum class SessionPhase {
  kPreparing,   // Launch has not arrived
  kCancelled,   // like kPreparing, but a stop has arrived
  kWardenless,  // the warden ended before Launch, and HostEmpty was sent or follows at once
  kRunning,     // some ranks start or run
  kEnding,      // all ranks are over, and the warden ends what they left
  kStopping,    // the warden ends the ranks, because it was ordered to
  kAbandoned,   // like kStopping, because the launcher has gone
  kDraining,    // nothing of the job runs here; HostEmpty waits for output and for GPU memory
  kUnheard,     // like kDraining, but the launcher has gone
  kReported,    // HostEmpty was sent; the launcher must send Leave
  kDone,        // the owner must call close()
  kClosing,     // the warden leaves
  kClosed,
};

enum class SessionEvent {
  kLaunch,        // the launcher sends Launch
  kAddWorld,      // the launcher sends AddWorld
  kStop,          // the launcher sends StopRanks, or this host fails the job
  kLauncherGone,  // the launcher sends Leave, or it is lost
  kLastRankOver,  // the last rank has ended or could not start
  kWardenEnded,   // the warden has left, or it was killed
  kJobEmpty,      // the warden, or the agent in its place, reports that nothing of the job is left
  kAllArrived,    // HostEmpty need not wait longer
  kClose,         // the owner calls close()
  kCloseDue,      // the warden's time to leave is over
};

enum class SessionAction {
  kStartRanks,      // start the ranks of Launch
  kAddRanks,        // start the ranks of AddWorld
  kFinish,          // order the warden to end what the ranks left
  kStopRanks,       // order the warden to end the ranks
  kStopAll,         // like kStopRanks; a stop without grace also ends the wait for GPUs
  kEndGpuWait,      // like kStopAll, but without an order to the warden, because no rank runs
  kAbandonRanks,    // end the ranks at once, and do not wait for GPUs
  kReplaceWarden,   // end the ranks in the warden's place
  kCollect,         // keep HostEmpty until all output has arrived and GPU memory is released
  kReport,          // send HostEmpty
  kReportAndLeave,  // send HostEmpty, and ask the owner to close the session
  kLeave,           // ask the owner to close the session
  kDismissWarden,   // order the warden to leave
  kRemove,          // reap the warden and remove the session directory
};

struct SessionStep {
  SessionPhase to;
  SessionAction action;
};

// nullopt if the table does not allow it.
std::optional<SessionStep> next_step(SessionPhase from, SessionEvent event);

// Facts about a phase. By them the session checks its lease and its warden.
bool has_launched(SessionPhase phase);    // Launch has arrived; false again from kDone on
bool has_lease(SessionPhase phase);       // an expired lease ends the ranks
bool needs_warden(SessionPhase phase);    // a stopped warden must be continued
bool must_end_ranks(SessionPhase phase);  // a warden that hangs must be killed

std::string_view name_of(SessionPhase phase);
std::string_view name_of(SessionEvent event);
std::string_view name_of(SessionAction action);
std::span<const SessionPhase> all_session_phases();
std::span<const SessionEvent> all_session_events();

}  // namespace muster::agent::job
