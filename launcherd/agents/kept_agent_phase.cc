// The state table of a kept agent, and the functions that read it.
// Read kKeptTable first; the functions only look rows up.
#include "launcherd/agents/kept_agent_phase.h"

#include <algorithm>
#include <array>

namespace muster::launcherd::inline agents {
namespace {

using KeptPhase = KeptAgentPhase;
using KeptEvent = KeptAgentEvent;
using KeptAction = KeptAgentAction;

struct KeptRow {
  KeptPhase from;
  KeptEvent event;
  KeptAgentStep step;
};

// An agent may answer JobClosed twice, because it may end a generation by itself before Leave arrives. The second one
// comes in kIdle, kTaken or kTakenOpening, which ignore it.
constexpr std::array kKeptTable = {
    KeptRow{KeptPhase::kStarting, KeptEvent::kHello, {KeptPhase::kOpening, KeptAction::kSendOpen}},
    KeptRow{KeptPhase::kStarting, KeptEvent::kFailStart, {KeptPhase::kGone, KeptAction::kReportFailed}},
    KeptRow{KeptPhase::kStarting, KeptEvent::kEnd, {KeptPhase::kEnded, KeptAction::kReportGone}},
    KeptRow{KeptPhase::kStarting, KeptEvent::kUnreadable, {KeptPhase::kStarting, KeptAction::kReportUnreadable}},
    KeptRow{KeptPhase::kStarting, KeptEvent::kLeave, {KeptPhase::kGone, KeptAction::kLetGo}},
    KeptRow{KeptPhase::kStarting, KeptEvent::kDrop, {KeptPhase::kGone, KeptAction::kLetGo}},

    KeptRow{KeptPhase::kOpening, KeptEvent::kOpened, {KeptPhase::kOpen, KeptAction::kReportUp}},
    KeptRow{KeptPhase::kOpening, KeptEvent::kRefused, {KeptPhase::kGone, KeptAction::kReportRefused}},
    KeptRow{KeptPhase::kOpening, KeptEvent::kEnd, {KeptPhase::kEnded, KeptAction::kReportGone}},
    KeptRow{KeptPhase::kOpening, KeptEvent::kUnreadable, {KeptPhase::kOpening, KeptAction::kReportUnreadable}},
    KeptRow{KeptPhase::kOpening, KeptEvent::kLeave, {KeptPhase::kClosing, KeptAction::kSendLeave}},
    KeptRow{KeptPhase::kOpening, KeptEvent::kDrop, {KeptPhase::kGone, KeptAction::kLetGo}},

    // An agent whose lease is over closes the generation by itself.
    KeptRow{KeptPhase::kOpen, KeptEvent::kClosed, {KeptPhase::kEnded, KeptAction::kReportGone}},
    KeptRow{KeptPhase::kOpen, KeptEvent::kEnd, {KeptPhase::kEnded, KeptAction::kReportGone}},
    KeptRow{KeptPhase::kOpen, KeptEvent::kUnreadable, {KeptPhase::kOpen, KeptAction::kReportUnreadable}},
    KeptRow{KeptPhase::kOpen, KeptEvent::kLeave, {KeptPhase::kClosing, KeptAction::kSendLeave}},
    KeptRow{KeptPhase::kOpen, KeptEvent::kDrop, {KeptPhase::kGone, KeptAction::kLetGo}},

    KeptRow{KeptPhase::kEnded, KeptEvent::kUnreadable, {KeptPhase::kEnded, KeptAction::kReportUnreadable}},
    KeptRow{KeptPhase::kEnded, KeptEvent::kLeave, {KeptPhase::kGone, KeptAction::kLetGo}},
    KeptRow{KeptPhase::kEnded, KeptEvent::kDrop, {KeptPhase::kGone, KeptAction::kLetGo}},

    KeptRow{KeptPhase::kClosing, KeptEvent::kClosed, {KeptPhase::kIdle, KeptAction::kNone}},
    KeptRow{KeptPhase::kClosing, KeptEvent::kEnd, {KeptPhase::kGone, KeptAction::kLetGo}},
    KeptRow{KeptPhase::kClosing, KeptEvent::kUnreadable, {KeptPhase::kGone, KeptAction::kLetGo}},
    KeptRow{KeptPhase::kClosing, KeptEvent::kTake, {KeptPhase::kTakenClosing, KeptAction::kNone}},
    KeptRow{KeptPhase::kClosing, KeptEvent::kDrop, {KeptPhase::kGone, KeptAction::kLetGo}},

    KeptRow{KeptPhase::kIdle, KeptEvent::kEnd, {KeptPhase::kGone, KeptAction::kLetGo}},
    KeptRow{KeptPhase::kIdle, KeptEvent::kUnreadable, {KeptPhase::kGone, KeptAction::kLetGo}},
    KeptRow{KeptPhase::kIdle, KeptEvent::kTake, {KeptPhase::kTaken, KeptAction::kNone}},
    KeptRow{KeptPhase::kIdle, KeptEvent::kDrop, {KeptPhase::kGone, KeptAction::kLetGo}},

    KeptRow{KeptPhase::kTaken, KeptEvent::kEnd, {KeptPhase::kGone, KeptAction::kReplace}},
    KeptRow{KeptPhase::kTaken, KeptEvent::kUnreadable, {KeptPhase::kGone, KeptAction::kReplace}},
    KeptRow{KeptPhase::kTaken, KeptEvent::kBegin, {KeptPhase::kTakenOpening, KeptAction::kSendOpen}},
    KeptRow{KeptPhase::kTaken, KeptEvent::kLeave, {KeptPhase::kIdle, KeptAction::kNone}},
    KeptRow{KeptPhase::kTaken, KeptEvent::kDrop, {KeptPhase::kGone, KeptAction::kLetGo}},

    KeptRow{KeptPhase::kTakenClosing, KeptEvent::kClosed, {KeptPhase::kTakenOpening, KeptAction::kSendOpen}},
    KeptRow{KeptPhase::kTakenClosing, KeptEvent::kEnd, {KeptPhase::kGone, KeptAction::kReplace}},
    KeptRow{KeptPhase::kTakenClosing, KeptEvent::kUnreadable, {KeptPhase::kGone, KeptAction::kReplace}},
    KeptRow{KeptPhase::kTakenClosing, KeptEvent::kLate, {KeptPhase::kGone, KeptAction::kReplace}},
    KeptRow{KeptPhase::kTakenClosing, KeptEvent::kBegin, {KeptPhase::kTakenClosing, KeptAction::kAwaitClose}},
    KeptRow{KeptPhase::kTakenClosing, KeptEvent::kLeave, {KeptPhase::kClosing, KeptAction::kNone}},
    KeptRow{KeptPhase::kTakenClosing, KeptEvent::kDrop, {KeptPhase::kGone, KeptAction::kLetGo}},

    KeptRow{KeptPhase::kTakenOpening, KeptEvent::kOpened, {KeptPhase::kOpen, KeptAction::kReportUp}},
    KeptRow{KeptPhase::kTakenOpening, KeptEvent::kRefused, {KeptPhase::kGone, KeptAction::kReplace}},
    KeptRow{KeptPhase::kTakenOpening, KeptEvent::kEnd, {KeptPhase::kGone, KeptAction::kReplace}},
    KeptRow{KeptPhase::kTakenOpening, KeptEvent::kUnreadable, {KeptPhase::kGone, KeptAction::kReplace}},
    KeptRow{KeptPhase::kTakenOpening, KeptEvent::kLate, {KeptPhase::kGone, KeptAction::kReplace}},
    KeptRow{KeptPhase::kTakenOpening, KeptEvent::kLeave, {KeptPhase::kClosing, KeptAction::kSendLeave}},
    KeptRow{KeptPhase::kTakenOpening, KeptEvent::kDrop, {KeptPhase::kGone, KeptAction::kLetGo}},
};

struct KeptFacts {
  KeptPhase phase;
  std::string_view name;
  bool is_used, is_taken, is_free;
};

constexpr std::array kKeptFacts = {
    KeptFacts{KeptPhase::kStarting, "starting", true, false, false},
    KeptFacts{KeptPhase::kOpening, "opening", true, false, false},
    KeptFacts{KeptPhase::kOpen, "open", true, false, false},
    KeptFacts{KeptPhase::kEnded, "ended", true, false, false},
    KeptFacts{KeptPhase::kClosing, "closing", false, false, true},
    KeptFacts{KeptPhase::kIdle, "idle", false, false, true},
    KeptFacts{KeptPhase::kTaken, "taken", true, true, false},
    KeptFacts{KeptPhase::kTakenClosing, "taken closing", true, true, false},
    KeptFacts{KeptPhase::kTakenOpening, "taken opening", true, true, false},
    KeptFacts{KeptPhase::kGone, "gone", false, false, false},
};

constexpr std::array kKeptPhases = {
    KeptPhase::kStarting, KeptPhase::kOpening, KeptPhase::kOpen,         KeptPhase::kEnded,        KeptPhase::kClosing,
    KeptPhase::kIdle,     KeptPhase::kTaken,   KeptPhase::kTakenClosing, KeptPhase::kTakenOpening, KeptPhase::kGone};
constexpr std::array kKeptEvents = {KeptEvent::kHello,      KeptEvent::kOpened,    KeptEvent::kRefused,
                                    KeptEvent::kClosed,     KeptEvent::kFailStart, KeptEvent::kEnd,
                                    KeptEvent::kUnreadable, KeptEvent::kLate,      KeptEvent::kTake,
                                    KeptEvent::kBegin,      KeptEvent::kLeave,     KeptEvent::kDrop};
constexpr std::array<std::string_view, kKeptEvents.size()> kKeptEventNames = {
    "hello",      "opened", "refused", "closed", "fail start", "end",
    "unreadable", "late",   "take",    "begin",  "leave",      "drop"};

static_assert(kKeptPhases.size() == kKeptFacts.size());

constexpr const KeptFacts& facts_of(KeptPhase phase) {
  return kKeptFacts[static_cast<std::size_t>(phase)];
}

}  // namespace

std::optional<KeptAgentStep> next_step(KeptAgentPhase from, KeptAgentEvent event) {
  const auto* const row =
      std::ranges::find_if(kKeptTable, [&](const KeptRow& each) { return each.from == from && each.event == event; });
  if (row == kKeptTable.end()) return std::nullopt;
  return row->step;
}

bool is_used(KeptAgentPhase phase) {
  return facts_of(phase).is_used;
}

bool is_taken(KeptAgentPhase phase) {
  return facts_of(phase).is_taken;
}

bool is_free(KeptAgentPhase phase) {
  return facts_of(phase).is_free;
}

std::string_view name_of(KeptAgentPhase phase) {
  return facts_of(phase).name;
}

std::string_view name_of(KeptAgentEvent event) {
  return kKeptEventNames[static_cast<std::size_t>(event)];
}

std::span<const KeptAgentPhase> all_kept_agent_phases() {
  return kKeptPhases;
}

std::span<const KeptAgentEvent> all_kept_agent_events() {
  return kKeptEvents;
}

}  // namespace muster::launcherd::agents
