#include "agent/job/command_phase.h"

#include <algorithm>
#include <array>

namespace muster::agent::inline job {
namespace {

using Phase = CommandPhase;
using Event = CommandEvent;
using Action = CommandAction;

struct CommandRow {
  Phase from;
  Event event;
  CommandStep step;
};

constexpr std::array kCommandSteps = {
    CommandRow{Phase::kStarting, Event::kStarted, {Phase::kRunning, Action::kReportStart}},
    CommandRow{Phase::kStarting, Event::kStartFailed, {Phase::kOver, Action::kReportFailure}},
    CommandRow{Phase::kStarting, Event::kEnd, {Phase::kCancelled, Action::kWait}},
    CommandRow{Phase::kStarting, Event::kExited, {Phase::kDraining, Action::kDrain}},

    CommandRow{Phase::kCancelled, Event::kStarted, {Phase::kEnding, Action::kAskToEnd}},
    CommandRow{Phase::kCancelled, Event::kStartFailed, {Phase::kOver, Action::kReportFailure}},
    CommandRow{Phase::kCancelled, Event::kExited, {Phase::kDraining, Action::kDrain}},

    CommandRow{Phase::kRunning, Event::kEnd, {Phase::kEnding, Action::kAskToEnd}},
    CommandRow{Phase::kRunning, Event::kExited, {Phase::kDraining, Action::kDrain}},

    CommandRow{Phase::kEnding, Event::kOverdue, {Phase::kEnding, Action::kKill}},
    CommandRow{Phase::kEnding, Event::kExited, {Phase::kDraining, Action::kDrain}},

    // An order to end may mean that no reader takes the output any longer.
    CommandRow{Phase::kDraining, Event::kEnd, {Phase::kOver, Action::kReportEnd}},
    CommandRow{Phase::kDraining, Event::kDrained, {Phase::kOver, Action::kReportEnd}},
};

constexpr std::array kCommandPhases = {Phase::kStarting, Phase::kCancelled, Phase::kRunning,
                                       Phase::kEnding,   Phase::kDraining,  Phase::kOver};
constexpr std::array<std::string_view, kCommandPhases.size()> kCommandPhaseNames = {"starting", "cancelled", "running",
                                                                                    "ending",   "draining",  "over"};
constexpr std::array kCommandEvents = {Event::kStarted, Event::kStartFailed, Event::kEnd,
                                       Event::kOverdue, Event::kExited,      Event::kDrained};
constexpr std::array<std::string_view, kCommandEvents.size()> kCommandEventNames = {
    "started", "start failed", "end", "overdue", "exited", "drained"};
constexpr std::array<std::string_view, 7> kCommandActionNames = {
    "report start", "report failure", "wait", "ask to end", "kill", "drain", "report end"};
static_assert(kCommandActionNames.size() == static_cast<std::size_t>(Action::kReportEnd) + 1);

}  // namespace

std::optional<CommandStep> next_step(CommandPhase from, CommandEvent event) {
  const auto* const row = std::ranges::find_if(
      kCommandSteps, [&](const CommandRow& each) { return each.from == from && each.event == event; });
  if (row == kCommandSteps.end()) return std::nullopt;
  return row->step;
}

std::string_view name_of(CommandPhase phase) {
  return kCommandPhaseNames[static_cast<std::size_t>(phase)];
}

std::string_view name_of(CommandEvent event) {
  return kCommandEventNames[static_cast<std::size_t>(event)];
}

std::string_view name_of(CommandAction action) {
  return kCommandActionNames[static_cast<std::size_t>(action)];
}

std::span<const CommandPhase> all_command_phases() {
  return kCommandPhases;
}

std::span<const CommandEvent> all_command_events() {
  return kCommandEvents;
}

}  // namespace muster::agent::job
