// The state table of a pooled host, and the functions that read it.
// Read kHostTable first; the functions only look rows up.
#include "launcherd/agents/pooled_host_phase.h"

#include <algorithm>
#include <array>

namespace muster::launcherd::inline agents {
namespace {

using Phase = PooledHostPhase;
using Event = PooledHostEvent;
using Action = PooledHostAction;

struct HostRow {
  Phase from;
  Event event;
  PooledHostStep step;
};

// An agent can send Hello before the bootstrap reports that it runs. So the bootstrap's report can come in any phase
// that has an agent. A reported success then has no effect, and a reported failure still ends the agent.
constexpr std::array kHostTable = {
    HostRow{Phase::kAbsent, Event::kRemember, {Phase::kAwaited, Action::kNone}},
    HostRow{Phase::kAbsent, Event::kStart, {Phase::kStarting, Action::kBootstrap}},

    HostRow{Phase::kStarting, Event::kLaunch, {Phase::kJoining, Action::kAwaitReport}},
    HostRow{Phase::kStarting, Event::kFailStart, {Phase::kFailed, Action::kRetryLater}},
    HostRow{Phase::kStarting, Event::kHello, {Phase::kConnected, Action::kOpenJobs}},
    HostRow{Phase::kStarting, Event::kUnreadable, {Phase::kAbsent, Action::kDropAgent}},
    HostRow{Phase::kStarting, Event::kEndLauncher, {Phase::kUnwanted, Action::kNone}},

    HostRow{Phase::kJoining, Event::kFailStart, {Phase::kFailed, Action::kRetryLater}},
    HostRow{Phase::kJoining, Event::kLoseLogin, {Phase::kJoining, Action::kAwaitLastReport}},
    HostRow{Phase::kJoining, Event::kHello, {Phase::kConnected, Action::kOpenJobs}},
    HostRow{Phase::kJoining, Event::kUnreadable, {Phase::kAbsent, Action::kDropAgent}},
    HostRow{Phase::kJoining, Event::kEndLauncher, {Phase::kUnwanted, Action::kNone}},

    HostRow{Phase::kAwaited, Event::kHello, {Phase::kConnected, Action::kOpenJobs}},
    HostRow{Phase::kAwaited, Event::kFindAlive, {Phase::kAwaited, Action::kAwaitReturn}},
    HostRow{Phase::kAwaited, Event::kFindGone, {Phase::kAbsent, Action::kLoseAgent}},
    HostRow{Phase::kAwaited, Event::kUnreadable, {Phase::kAbsent, Action::kDropAgent}},

    HostRow{Phase::kConnected, Event::kFailStart, {Phase::kFailed, Action::kRetryLater}},
    HostRow{Phase::kConnected, Event::kReturn, {Phase::kConnected, Action::kContinueJobs}},
    HostRow{Phase::kConnected, Event::kSilence, {Phase::kSilent, Action::kShow}},
    HostRow{Phase::kConnected, Event::kCut, {Phase::kCut, Action::kSuspendJobs}},
    HostRow{Phase::kConnected, Event::kUnreadable, {Phase::kAbsent, Action::kDropAgent}},
    HostRow{Phase::kConnected, Event::kEndLauncher, {Phase::kDismissed, Action::kDismiss}},

    HostRow{Phase::kSilent, Event::kFailStart, {Phase::kFailed, Action::kRetryLater}},
    HostRow{Phase::kSilent, Event::kReturn, {Phase::kConnected, Action::kContinueJobs}},
    HostRow{Phase::kSilent, Event::kHear, {Phase::kConnected, Action::kShow}},
    HostRow{Phase::kSilent, Event::kCut, {Phase::kCut, Action::kSuspendJobs}},
    HostRow{Phase::kSilent, Event::kUnreadable, {Phase::kAbsent, Action::kDropAgent}},
    HostRow{Phase::kSilent, Event::kEndLauncher, {Phase::kDismissed, Action::kDismiss}},

    HostRow{Phase::kCut, Event::kFailStart, {Phase::kFailed, Action::kRetryLater}},
    HostRow{Phase::kCut, Event::kReturn, {Phase::kConnected, Action::kContinueJobs}},
    HostRow{Phase::kCut, Event::kFindAlive, {Phase::kCut, Action::kAwaitReturn}},
    HostRow{Phase::kCut, Event::kFindGone, {Phase::kAbsent, Action::kLoseAgent}},
    HostRow{Phase::kCut, Event::kUnreadable, {Phase::kAbsent, Action::kDropAgent}},

    HostRow{Phase::kFailed, Event::kStart, {Phase::kStarting, Action::kBootstrap}},

    HostRow{Phase::kUnwanted, Event::kFailStart, {Phase::kFailed, Action::kRetryLater}},
    HostRow{Phase::kUnwanted, Event::kLoseLogin, {Phase::kUnwanted, Action::kAwaitLastReport}},
    HostRow{Phase::kUnwanted, Event::kHello, {Phase::kDismissed, Action::kDismiss}},
    HostRow{Phase::kUnwanted, Event::kUnreadable, {Phase::kAbsent, Action::kDropAgent}},

    HostRow{Phase::kDismissed, Event::kFailStart, {Phase::kFailed, Action::kRetryLater}},
    HostRow{Phase::kDismissed, Event::kReturn, {Phase::kDismissed, Action::kDismiss}},
    HostRow{Phase::kDismissed, Event::kStored, {Phase::kDismissed, Action::kDismiss}},
    HostRow{Phase::kDismissed, Event::kCut, {Phase::kAbsent, Action::kLoseAgent}},
    HostRow{Phase::kDismissed, Event::kUnreadable, {Phase::kAbsent, Action::kDropAgent}},
};

struct PhaseFacts {
  Phase phase;
  std::string_view name;
  bool has_agent, has_stream, has_joined, must_end;
};

constexpr std::array kPhaseFacts = {
    PhaseFacts{Phase::kAbsent, "absent", false, false, false, false},
    PhaseFacts{Phase::kStarting, "starting", true, false, false, false},
    PhaseFacts{Phase::kJoining, "joining", true, false, false, false},
    PhaseFacts{Phase::kAwaited, "awaited", true, false, false, false},
    PhaseFacts{Phase::kConnected, "connected", true, true, true, false},
    PhaseFacts{Phase::kSilent, "silent", true, true, true, false},
    PhaseFacts{Phase::kCut, "cut", true, false, true, false},
    PhaseFacts{Phase::kFailed, "failed", false, false, false, false},
    PhaseFacts{Phase::kUnwanted, "unwanted", true, false, false, true},
    PhaseFacts{Phase::kDismissed, "dismissed", true, true, true, true},
};

constexpr std::array kHostPhases = {Phase::kAbsent,    Phase::kStarting, Phase::kJoining, Phase::kAwaited,
                                    Phase::kConnected, Phase::kSilent,   Phase::kCut,     Phase::kFailed,
                                    Phase::kUnwanted,  Phase::kDismissed};
constexpr std::array kHostEvents = {Event::kRemember,   Event::kStart,       Event::kLaunch,    Event::kFailStart,
                                    Event::kLoseLogin,  Event::kHello,       Event::kReturn,    Event::kHear,
                                    Event::kSilence,    Event::kCut,         Event::kFindAlive, Event::kFindGone,
                                    Event::kUnreadable, Event::kEndLauncher, Event::kStored};
constexpr std::array<std::string_view, kHostEvents.size()> kHostEventNames = {
    "remember", "start", "launch",     "fail start", "lose log-in", "hello",        "return", "hear",
    "silence",  "cut",   "find alive", "find gone",  "unreadable",  "end launcher", "stored"};

static_assert(kHostPhases.size() == kPhaseFacts.size());

constexpr const PhaseFacts& facts_of(Phase phase) {
  return kPhaseFacts[static_cast<std::size_t>(phase)];
}

}  // namespace

std::optional<PooledHostStep> next_step(PooledHostPhase from, PooledHostEvent event) {
  const auto* const row =
      std::ranges::find_if(kHostTable, [&](const HostRow& each) { return each.from == from && each.event == event; });
  if (row == kHostTable.end()) return std::nullopt;
  return row->step;
}

bool has_agent(PooledHostPhase phase) {
  return facts_of(phase).has_agent;
}

bool has_stream(PooledHostPhase phase) {
  return facts_of(phase).has_stream;
}

bool has_joined(PooledHostPhase phase) {
  return facts_of(phase).has_joined;
}

bool must_end(PooledHostPhase phase) {
  return facts_of(phase).must_end;
}

std::string_view name_of(PooledHostPhase phase) {
  return facts_of(phase).name;
}

std::string_view name_of(PooledHostEvent event) {
  return kHostEventNames[static_cast<std::size_t>(event)];
}

std::span<const PooledHostPhase> all_pooled_host_phases() {
  return kHostPhases;
}

std::span<const PooledHostEvent> all_pooled_host_events() {
  return kHostEvents;
}

}  // namespace muster::launcherd::agents
