// The phases of a command that runs beside a rank (muster exec), as a state table: (phase, event) -> next phase and
// action, or not allowed. Pure; the table is in command_phase.cc and nowhere else. RankCommands asks it at each event
// and carries out the action. If the table does not allow an event, RankCommands ignores the event.
//
//   starting -> running -> draining -> over
//
// An order to end leads from starting to cancelled, and from running to ending.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace muster::agent::inline job {

enum class CommandPhase {
  kStarting,   // the warden has the request
  kCancelled,  // like kStarting, but the command must end as soon as it runs
  kRunning,
  kEnding,    // it was asked to end, and is killed if it does not
  kDraining,  // it has ended, and its last output is on the way
  kOver,
};

enum class CommandEvent {
  kStarted,      // the warden reports the start
  kStartFailed,  // the warden reports that it cannot start
  kEnd,          // its rank has ended, its caller has left, or no launcher is there
  kOverdue,      // it was asked to end some time ago
  kExited,       // the warden has reaped it, or is lost
  kDrained,      // all its output was sent
};

enum class CommandAction {
  kReportStart,
  kReportFailure,  // and forget it
  kWait,           // nothing: the warden's report must come first
  kAskToEnd,       // SIGHUP and SIGTERM; kOverdue follows
  kKill,
  kDrain,      // read what it has written
  kReportEnd,  // and forget it
};

struct CommandStep {
  CommandPhase to;
  CommandAction action;
};

// nullopt if the table does not allow it.
std::optional<CommandStep> next_step(CommandPhase from, CommandEvent event);

std::string_view name_of(CommandPhase phase);
std::string_view name_of(CommandEvent event);
std::string_view name_of(CommandAction action);
std::span<const CommandPhase> all_command_phases();
std::span<const CommandEvent> all_command_events();

}  // namespace muster::agent::job
