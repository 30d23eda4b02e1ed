// The whole state table of a session. Read kSteps first, then the has_ functions, which say what holds in a phase.

#include "agent/job/session_phase.h"

#include <algorithm>
#include <array>

namespace muster::agent::inline job {
namespace {

using enum SessionPhase;
using enum SessionEvent;
using enum SessionAction;

struct StepRow {
  SessionPhase from;
  SessionEvent event;
  SessionStep step;
};

constexpr std::array kSteps = {
    StepRow{kPreparing, kLaunch, {kRunning, kStartRanks}},
    StepRow{kPreparing, kStop, {kCancelled, kEndGpuWait}},
    StepRow{kPreparing, kLauncherGone, {kDone, kLeave}},
    StepRow{kPreparing, kWardenEnded, {kWardenless, kReplaceWarden}},
    StepRow{kPreparing, kJobEmpty, {kWardenless, kCollect}},

    StepRow{kCancelled, kLaunch, {kStopping, kStartRanks}},
    StepRow{kCancelled, kStop, {kCancelled, kEndGpuWait}},
    StepRow{kCancelled, kLauncherGone, {kDone, kLeave}},
    StepRow{kCancelled, kWardenEnded, {kWardenless, kReplaceWarden}},
    StepRow{kCancelled, kJobEmpty, {kWardenless, kCollect}},

    StepRow{kWardenless, kLaunch, {kReported, kStartRanks}},  // each rank is reported as one that could not start
    StepRow{kWardenless, kStop, {kWardenless, kEndGpuWait}},
    StepRow{kWardenless, kLauncherGone, {kDone, kLeave}},
    StepRow{kWardenless, kJobEmpty, {kWardenless, kCollect}},
    StepRow{kWardenless, kAllArrived, {kWardenless, kReport}},

    StepRow{kRunning, kAddWorld, {kRunning, kAddRanks}},
    // A stop of running ranks does not end the wait for GPUs. A grace of 0 may concern only the ranks.
    StepRow{kRunning, kStop, {kStopping, kStopRanks}},
    StepRow{kRunning, kLauncherGone, {kAbandoned, kAbandonRanks}},
    StepRow{kRunning, kLastRankOver, {kEnding, kFinish}},
    StepRow{kRunning, kWardenEnded, {kStopping, kReplaceWarden}},
    StepRow{kRunning, kJobEmpty, {kDraining, kCollect}},

    StepRow{kEnding, kStop, {kStopping, kStopAll}},
    StepRow{kEnding, kLauncherGone, {kAbandoned, kAbandonRanks}},
    StepRow{kEnding, kWardenEnded, {kStopping, kReplaceWarden}},
    StepRow{kEnding, kJobEmpty, {kDraining, kCollect}},

    StepRow{kStopping, kStop, {kStopping, kStopAll}},
    StepRow{kStopping, kLauncherGone, {kAbandoned, kAbandonRanks}},
    StepRow{kStopping, kWardenEnded, {kStopping, kReplaceWarden}},
    StepRow{kStopping, kJobEmpty, {kDraining, kCollect}},

    StepRow{kAbandoned, kStop, {kAbandoned, kStopAll}},
    StepRow{kAbandoned, kWardenEnded, {kAbandoned, kReplaceWarden}},
    StepRow{kAbandoned, kJobEmpty, {kUnheard, kCollect}},

    // If the warden receives a stop after it has sent JobEmpty, it sends JobEmpty a second time.
    StepRow{kDraining, kStop, {kDraining, kEndGpuWait}},
    StepRow{kDraining, kLauncherGone, {kUnheard, kAbandonRanks}},
    StepRow{kDraining, kJobEmpty, {kDraining, kCollect}},
    StepRow{kDraining, kAllArrived, {kReported, kReport}},

    StepRow{kUnheard, kJobEmpty, {kUnheard, kCollect}},
    StepRow{kUnheard, kAllArrived, {kDone, kReportAndLeave}},

    StepRow{kReported, kLauncherGone, {kDone, kLeave}},

    StepRow{kDone, kClose, {kClosing, kDismissWarden}},

    StepRow{kClosing, kWardenEnded, {kClosed, kRemove}},
    StepRow{kClosing, kCloseDue, {kClosed, kRemove}},
};

constexpr std::array kPhases = {kPreparing, kCancelled, kWardenless, kRunning, kEnding,  kStopping, kAbandoned,
                                kDraining,  kUnheard,   kReported,   kDone,    kClosing, kClosed};
constexpr std::array<std::string_view, kPhases.size()> kPhaseNames = {
    "preparing", "cancelled", "wardenless", "running", "ending",  "stopping", "abandoned",
    "draining",  "unheard",   "reported",   "done",    "closing", "closed"};
constexpr std::array kEvents = {kLaunch,      kAddWorld, kStop,       kLauncherGone, kLastRankOver,
                                kWardenEnded, kJobEmpty, kAllArrived, kClose,        kCloseDue};
constexpr std::array<std::string_view, kEvents.size()> kEventNames = {
    "Launch",       "AddWorld", "stop",        "launcher gone", "last rank over",
    "warden ended", "JobEmpty", "all arrived", "close",         "close due"};
constexpr std::array<std::string_view, 14> kActionNames = {
    "start ranks",    "add ranks", "finish", "stop ranks",       "stop all", "end GPU wait",   "abandon ranks",
    "replace warden", "collect",   "report", "report and leave", "leave",    "dismiss warden", "remove"};
static_assert(kActionNames.size() == static_cast<std::size_t>(kRemove) + 1);

template <std::size_t N>
bool is_one_of(SessionPhase phase, const std::array<SessionPhase, N>& phases) {
  return std::ranges::find(phases, phase) != phases.end();
}

}  // namespace

std::optional<SessionStep> next_step(SessionPhase from, SessionEvent event) {
  const auto* const row =
      std::ranges::find_if(kSteps, [&](const StepRow& each) { return each.from == from && each.event == event; });
  if (row == kSteps.end()) return std::nullopt;
  return row->step;
}

bool has_launched(SessionPhase phase) {
  return is_one_of(phase, std::array{kRunning, kEnding, kStopping, kAbandoned, kDraining, kUnheard, kReported});
}

bool has_lease(SessionPhase phase) {
  return is_one_of(phase,
                   std::array{kPreparing, kCancelled, kWardenless, kRunning, kEnding, kStopping, kDraining, kReported});
}

bool needs_warden(SessionPhase phase) {
  return is_one_of(phase, std::array{kPreparing, kCancelled, kRunning, kEnding, kStopping, kAbandoned});
}

bool must_end_ranks(SessionPhase phase) {
  return is_one_of(phase, std::array{kCancelled, kStopping, kAbandoned});
}

std::string_view name_of(SessionPhase phase) {
  return kPhaseNames[static_cast<std::size_t>(phase)];
}

std::string_view name_of(SessionEvent event) {
  return kEventNames[static_cast<std::size_t>(event)];
}

std::string_view name_of(SessionAction action) {
  return kActionNames[static_cast<std::size_t>(action)];
}

std::span<const SessionPhase> all_session_phases() {
  return kPhases;
}

std::span<const SessionEvent> all_session_events() {
  return kEvents;
}

}  // namespace muster::agent::job
