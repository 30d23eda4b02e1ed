// The life of a pooled host's agent as a state table: (phase, event) -> next phase and action, or no entry.
// Pure; the table is in pooled_host_phase.cc and nowhere else. HostPool::Core asks the table and does the action.
// docs/design.md shows it as a diagram.
//
//   ABSENT -> STARTING -> JOINING -> CONNECTED <-> CUT -> ABSENT
//
// AWAITED is the first phase of an agent that the last launcherd has started. A start that fails leads to FAILED, which
// leads to STARTING after a pause. When launcherd ends, hosts without a job go to UNWANTED or DISMISSED.
//
// Timers: each phase has at most one, which ends with the phase. Exception: UNWANTED keeps the timer of its start.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace muster::launcherd::inline agents {

enum class PooledHostPhase {
  kAbsent,     // no agent
  kStarting,   // the bootstrap starts the agent
  kJoining,    // the agent runs but has not sent Hello; timer: until its start counts as failed
  kAwaited,    // an agent of the last launcherd may connect; timer: until the next probe of its host
  kConnected,  // the agent has a control stream
  kSilent,     // the agent has a control stream but has sent nothing for a while
  kCut,        // the control stream was cut, and the agent may be back; timer: until the next probe of its host
  kFailed,     // the agent could not be started; timer: until the next attempt
  kUnwanted,   // the agent is being started, but launcherd is ending
  kDismissed,  // the agent has a control stream and must end, because launcherd is ending
};

enum class PooledHostEvent {
  kRemember,     // the state file lists an agent of the last launcherd
  kStart,        // a job or a view needs an agent, or a pause has passed
  kLaunch,       // the bootstrap has started the agent
  kFailStart,    // the agent could not be started, or it has not reported in time
  kLoseLogin,    // the log-in connection of an agent that has not dialled has ended
  kHello,        // the agent's first Hello
  kReturn,       // a Hello of an agent that has sent one before
  kHear,         // any other message of the agent
  kSilence,      // the agent has sent nothing for a while
  kCut,          // the control stream has ended
  kFindAlive,    // a probe found the agent, or it could not tell whether the agent still runs
  kFindGone,     // a probe found no process of the agent, or an agent without a job did not return in time
  kUnreadable,   // a message on the control stream cannot be read
  kEndLauncher,  // launcherd is ending, and the host has no job
  kStored,       // launcherd is ending, and the ends of all jobs of the host are on the disk
};

// The action of the pool after it has entered the next phase.
enum class PooledHostAction {
  kNone,
  kShow,             // report the change to views
  kBootstrap,        // list the agent in the state file, then start it
  kAwaitReport,      // arm the timer for the first Hello
  kAwaitLastReport,  // arm a shorter timer for the first Hello
  kRetryLater,       // fail the jobs that wait, and arm the timer for the next attempt
  kAwaitReturn,      // arm the timer for the next probe
  kOpenJobs,         // resume the jobs that the agent holds, and open those that wait
  kContinueJobs,     // report to the jobs that the stream is back
  kSuspendJobs,      // report to the jobs that the stream was cut, and arm the timer for the next probe
  kLoseAgent,        // forget the agent, and report its loss to the jobs
  kDropAgent,        // forget the agent, and report to the jobs that it is unreadable
  kDismiss,          // send Leave once the ends of all its jobs are on the disk
};

struct PooledHostStep {
  PooledHostPhase to;
  PooledHostAction action;
};

// nullopt if the event has no meaning in this phase; the pool then ignores it.
std::optional<PooledHostStep> next_step(PooledHostPhase from, PooledHostEvent event);

bool has_agent(PooledHostPhase phase);   // the control server expects or has an agent of the host
bool has_stream(PooledHostPhase phase);  // the agent has a control stream now
bool has_joined(PooledHostPhase phase);  // the agent has sent Hello, so messages to it can be numbered
bool must_end(PooledHostPhase phase);    // launcherd waits for the agent's end before it ends

std::string_view name_of(PooledHostPhase phase);
std::string_view name_of(PooledHostEvent event);
std::span<const PooledHostPhase> all_pooled_host_phases();
std::span<const PooledHostEvent> all_pooled_host_events();

}  // namespace muster::launcherd::agents
