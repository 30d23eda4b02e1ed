// The table of a host's phases, and the functions that read it.
// Read kHostTable and kIgnoredByHosts first; the functions only look rows up.
#include "launcherd/run/host_phase.h"

#include <algorithm>
#include <array>

namespace muster::launcherd::inline run {
namespace {

using enum HostPhase;

struct HostRow {
  HostPhase from;
  HostEvent event;
  HostTransition transition;
};

constexpr auto kHostTable = std::to_array<HostRow>({
    // Agents of the pool come up without kAgentStarted.
    {kBootstrapping, HostEvent::kAgentStarted, {kJoining, HostAction::kNone}},
    {kBootstrapping, HostEvent::kAgentUp, {kUp, HostAction::kNone}},
    {kBootstrapping, HostEvent::kNotNeeded, {kUnused, HostAction::kNone}},
    {kBootstrapping, HostEvent::kStartFailed, {kFailed, HostAction::kFailStart}},
    {kBootstrapping, HostEvent::kStartOverdue, {kFailed, HostAction::kReportLate}},
    {kBootstrapping, HostEvent::kStartEnded, {kFailed, HostAction::kDrop}},
    {kBootstrapping, HostEvent::kAgentGone, {kFailed, HostAction::kFailStart}},
    {kBootstrapping, HostEvent::kUnreadable, {kFailed, HostAction::kFailStart}},

    {kJoining, HostEvent::kAgentUp, {kUp, HostAction::kNone}},
    {kJoining, HostEvent::kNotNeeded, {kUnused, HostAction::kNone}},
    {kJoining, HostEvent::kStartFailed, {kFailed, HostAction::kFailStart}},
    {kJoining, HostEvent::kStartOverdue, {kFailed, HostAction::kReportLate}},
    {kJoining, HostEvent::kStartEnded, {kFailed, HostAction::kDrop}},
    {kJoining, HostEvent::kAgentGone, {kFailed, HostAction::kFailStart}},
    {kJoining, HostEvent::kUnreadable, {kFailed, HostAction::kFailStart}},

    // If a start ends early, hosts that an earlier launcherd launched get kLaunch, so that their ranks are stopped.
    {kUp, HostEvent::kNotNeeded, {kUnused, HostAction::kNone}},
    {kUp, HostEvent::kPrepared, {kPrepared, HostAction::kNone}},
    {kUp, HostEvent::kLaunch, {kLaunched, HostAction::kNone}},
    {kUp, HostEvent::kRanksGone, {kDraining, HostAction::kNone}},
    {kUp, HostEvent::kStartFailed, {kFailed, HostAction::kFailStart}},
    {kUp, HostEvent::kStartOverdue, {kFailed, HostAction::kReportLate}},
    {kUp, HostEvent::kStartEnded, {kUnused, HostAction::kLeave}},
    {kUp, HostEvent::kAgentGone, {kFailed, HostAction::kFailStart}},
    {kUp, HostEvent::kUnreadable, {kFailed, HostAction::kFailStart}},
    {kUp, HostEvent::kLeaseOver, {kLost, HostAction::kLoseSilent}},

    {kPrepared, HostEvent::kLaunch, {kLaunched, HostAction::kNone}},
    {kPrepared, HostEvent::kRanksGone, {kDraining, HostAction::kNone}},
    {kPrepared, HostEvent::kStartFailed, {kFailed, HostAction::kFailStart}},
    {kPrepared, HostEvent::kStartEnded, {kUnused, HostAction::kLeave}},
    {kPrepared, HostEvent::kAgentGone, {kFailed, HostAction::kFailStart}},
    {kPrepared, HostEvent::kUnreadable, {kFailed, HostAction::kFailStart}},
    {kPrepared, HostEvent::kLeaseOver, {kLost, HostAction::kLoseSilent}},

    {kLaunched, HostEvent::kRanksGone, {kDraining, HostAction::kNone}},
    {kLaunched, HostEvent::kAgentGone, {kSweeping, HostAction::kSweep}},
    {kLaunched, HostEvent::kUnreadable, {kLost, HostAction::kLoseUnreadable}},
    {kLaunched, HostEvent::kLeaseOver, {kLost, HostAction::kLoseSilent}},
    {kLaunched, HostEvent::kStopOverdue, {kLost, HostAction::kLoseSilent}},

    // If an agent reports too early that no process is left, it still gets its ranks.
    {kDraining, HostEvent::kLaunch, {kLaunched, HostAction::kNone}},
    {kDraining, HostEvent::kOutputComplete, {kEmpty, HostAction::kNone}},
    {kDraining, HostEvent::kOutputCut, {kEmpty, HostAction::kLoseOutput}},
    {kDraining, HostEvent::kAgentGone, {kDraining, HostAction::kReadRest}},
    {kDraining, HostEvent::kUnreadable, {kEmpty, HostAction::kLoseOutput}},
    {kDraining, HostEvent::kLeaseOver, {kEmpty, HostAction::kLoseOutput}},
    {kEmpty, HostEvent::kLaunch, {kLaunched, HostAction::kNone}},

    // The job was ending already when the bootstrap started the agent.
    {kFailed, HostEvent::kAgentStarted, {kFailed, HostAction::kDrop}},

    {kSweeping, HostEvent::kSwept, {kLost, HostAction::kNone}},
});

template <typename... Phases>
constexpr unsigned hosts_in(Phases... phases) {
  return ((1U << static_cast<unsigned>(phases)) | ...);
}

struct HostsIgnore {
  HostEvent event;
  unsigned phases;
};

// Events that come too late, too early or twice.
constexpr auto kIgnoredByHosts = std::to_array<HostsIgnore>({
    {HostEvent::kAgentUp, hosts_in(kFailed, kSweeping, kLost)},
    {HostEvent::kNotNeeded, hosts_in(kUnused)},
    {HostEvent::kPrepared, hosts_in(kPrepared, kLaunched, kDraining, kEmpty, kUnused)},
    {HostEvent::kRanksGone, hosts_in(kDraining, kEmpty, kUnused)},
    {HostEvent::kOutputComplete, hosts_in(kUp, kPrepared, kLaunched, kEmpty, kUnused, kFailed, kSweeping, kLost)},
    {HostEvent::kOutputCut, hosts_in(kUp, kPrepared, kLaunched, kEmpty, kUnused, kFailed, kSweeping, kLost)},
    {HostEvent::kStartFailed, hosts_in(kFailed)},
    {HostEvent::kStartOverdue, hosts_in(kPrepared, kDraining, kEmpty, kUnused, kFailed, kSweeping, kLost)},
    {HostEvent::kStartEnded, hosts_in(kDraining, kEmpty, kUnused, kFailed, kSweeping, kLost)},
    {HostEvent::kAgentGone, hosts_in(kEmpty, kUnused, kFailed, kSweeping, kLost)},
    {HostEvent::kUnreadable, hosts_in(kEmpty, kUnused, kFailed, kSweeping, kLost)},
    {HostEvent::kStopOverdue,
     hosts_in(kBootstrapping, kJoining, kUp, kPrepared, kDraining, kEmpty, kUnused, kFailed, kSweeping, kLost)},
});

constexpr std::array kHostPhases = {kBootstrapping, kJoining, kUp,     kPrepared, kLaunched, kDraining,
                                    kEmpty,         kUnused,  kFailed, kSweeping, kLost};
constexpr std::array kHostPhaseNames = {"bootstrapping", "joining", "up",     "prepared", "launched", "draining",
                                        "empty",         "unused",  "failed", "sweeping", "lost"};
constexpr std::array kHostEvents = {
    HostEvent::kAgentStarted, HostEvent::kAgentUp,      HostEvent::kNotNeeded,      HostEvent::kPrepared,
    HostEvent::kLaunch,       HostEvent::kRanksGone,    HostEvent::kOutputComplete, HostEvent::kOutputCut,
    HostEvent::kStartFailed,  HostEvent::kStartOverdue, HostEvent::kStartEnded,     HostEvent::kAgentGone,
    HostEvent::kUnreadable,   HostEvent::kLeaseOver,    HostEvent::kStopOverdue,    HostEvent::kSwept};
constexpr std::array kHostEventNames = {"agent started", "agent up",      "not needed",      "prepared",
                                        "launch",        "ranks gone",    "output complete", "output cut",
                                        "start failed",  "start overdue", "start ended",     "agent gone",
                                        "unreadable",    "lease over",    "stop overdue",    "swept"};
constexpr std::array kHostActionNames = {"",      "ignore",      "fail start",     "report late",
                                         "drop",  "leave",       "read rest",      "lose output",
                                         "sweep", "lose silent", "lose unreadable"};
static_assert(kHostPhases.size() == kHostPhaseNames.size() && kHostEvents.size() == kHostEventNames.size());

}  // namespace

std::optional<HostTransition> next_phase(HostPhase from, HostEvent event) {
  const auto* const row =
      std::ranges::find_if(kHostTable, [&](const HostRow& each) { return each.from == from && each.event == event; });
  if (row != kHostTable.end()) return row->transition;
  const bool is_ignored = std::ranges::any_of(kIgnoredByHosts, [&](const HostsIgnore& each) {
    return each.event == event && (each.phases & hosts_in(from)) != 0;
  });
  if (is_ignored) return HostTransition{from, HostAction::kIgnore};
  return std::nullopt;
}

bool is_waiting(HostPhase phase) {
  return phase == kBootstrapping || phase == kJoining;
}

bool is_watched(HostPhase phase) {
  return phase == kUp || phase == kPrepared || phase == kLaunched || phase == kDraining;
}

bool is_without_processes(HostPhase phase) {
  return phase == kDraining || phase == kEmpty || phase == kUnused || phase == kFailed || phase == kLost;
}

std::string_view name_of(HostPhase phase) {
  return kHostPhaseNames[static_cast<std::size_t>(phase)];
}

std::string_view name_of(HostEvent event) {
  return kHostEventNames[static_cast<std::size_t>(event)];
}

std::string_view name_of(HostAction action) {
  return kHostActionNames[static_cast<std::size_t>(action)];
}

std::span<const HostPhase> all_host_phases() {
  return kHostPhases;
}

std::span<const HostEvent> all_host_events() {
  return kHostEvents;
}

HostAction HostState::apply(HostEvent event) {
  const auto transition = next_phase(phase_, event);
  if (!transition) return HostAction::kIgnore;
  phase_ = transition->to;
  return transition->action;
}

}  // namespace muster::launcherd::run
