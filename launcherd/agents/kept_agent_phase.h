// The life of one agent of KeptAgents as a state table: (phase, event) -> next phase and action, or no entry.
// Pure; the table is in kept_agent_phase.cc and nowhere else. KeptAgents asks the table and does the action.
//
//   STARTING -> OPENING -> OPEN -> CLOSING -> IDLE
//   IDLE -> TAKEN -> TAKEN_OPENING -> OPEN
//   CLOSING -> TAKEN_CLOSING -> TAKEN_OPENING
//
// The upper line is the first generation of an agent. A later generation takes the agent while it is IDLE or CLOSING.
// Until the agent is OPEN again, the generation gets a new agent instead if anything goes wrong.
//
// Timers: TAKEN_CLOSING and TAKEN_OPENING each have one, which ends with the phase.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace muster::launcherd::inline agents {

enum class KeptAgentPhase {
  kStarting,      // a new agent has not sent Hello
  kOpening,       // OpenJob was sent to a new agent
  kOpen,          // the generation runs on the agent
  kEnded,         // the agent, or what it ran of the generation, has ended; the generation may still read its output
  kClosing,       // Leave was sent, and no generation uses the agent
  kIdle,          // no generation uses the agent
  kTaken,         // the next generation uses the agent, but OpenJob was not sent yet
  kTakenClosing,  // the next generation uses the agent, which has not closed the last one; timer: until it is replaced
  kTakenOpening,  // OpenJob was sent to an agent of an earlier generation; timer: until it is replaced
  kGone,          // KeptAgents has let the agent go; final
};

enum class KeptAgentEvent {
  kHello,       // the agent's first Hello
  kOpened,      // JobOpened without an error
  kRefused,     // JobOpened with an error
  kClosed,      // JobClosed
  kFailStart,   // the agent could not be started
  kEnd,         // the agent's log-in connection has ended
  kUnreadable,  // a message on the control stream cannot be read
  kLate,        // the phase's timer
  kTake,        // the next generation uses the agent's host
  kBegin,       // the generation is ready for events
  kLeave,       // the generation needs the agent no longer, or has ended
  kDrop,        // the generation has dropped the agent, or does not use its host
};

// The action of KeptAgents after the agent has entered the next phase.
enum class KeptAgentAction {
  kNone,
  kSendOpen,          // send OpenJob; arm the timer if the phase has one
  kAwaitClose,        // arm the timer
  kSendLeave,         // send Leave
  kReportUp,          // report to the generation that the agent is up
  kReportFailed,      // let the agent go, and report that it did not start
  kReportRefused,     // let the agent go, and report that it has refused its first generation
  kReportGone,        // report that the agent has ended
  kReportUnreadable,  // report that the agent is unreadable
  kReplace,           // let the agent go, and start a new one for its host
  kLetGo,             // close the agent's log-in
};

struct KeptAgentStep {
  KeptAgentPhase to;
  KeptAgentAction action;
};

// nullopt if the event has no meaning in this phase; KeptAgents then ignores it.
std::optional<KeptAgentStep> next_step(KeptAgentPhase from, KeptAgentEvent event);

bool is_used(KeptAgentPhase phase);   // the present generation uses the agent
bool is_taken(KeptAgentPhase phase);  // it is used, but may still be replaced without a report
bool is_free(KeptAgentPhase phase);   // the next generation may use it

std::string_view name_of(KeptAgentPhase phase);
std::string_view name_of(KeptAgentEvent event);
std::span<const KeptAgentPhase> all_kept_agent_phases();
std::span<const KeptAgentEvent> all_kept_agent_events();

}  // namespace muster::launcherd::agents
