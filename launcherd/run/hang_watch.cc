// The table of the watch on hangs, and all of HangWatch.
// Read it in this order: the table, on, carry_out, tick, ask, decide.
#include "launcherd/run/hang_watch.h"

#include <algorithm>
#include <array>
#include <utility>

namespace muster::launcherd::inline run {
namespace {

using enum HangPhase;

struct HangRow {
  HangPhase from;
  HangEvent event;
  HangStep step;
};

constexpr auto kHangTable = std::to_array<HangRow>({
    {kOff, HangEvent::kStart, {kQuiet, HangAction::kWatch}},
    {kOff, HangEvent::kStop, {kOff, HangAction::kNone}},
    {kOff, HangEvent::kProgress, {kOff, HangAction::kNone}},

    {kQuiet, HangEvent::kStop, {kOff, HangAction::kEnd}},
    {kQuiet, HangEvent::kHold, {kQuiet, HangAction::kNone}},
    {kQuiet, HangEvent::kProgress, {kQuiet, HangAction::kNone}},
    {kQuiet, HangEvent::kSilence, {kAsking, HangAction::kAsk}},

    {kAsking, HangEvent::kStop, {kOff, HangAction::kEnd}},
    {kAsking, HangEvent::kHold, {kQuiet, HangAction::kDrop}},
    {kAsking, HangEvent::kProgress, {kQuiet, HangAction::kDrop}},
    {kAsking, HangEvent::kHung, {kReported, HangAction::kReport}},
    {kAsking, HangEvent::kHealthy, {kQuiet, HangAction::kWait}},

    {kReported, HangEvent::kStop, {kOff, HangAction::kEnd}},
    {kReported, HangEvent::kHold, {kReported, HangAction::kNone}},
    {kReported, HangEvent::kProgress, {kQuiet, HangAction::kGoOn}},
});

constexpr std::array kHangPhases = {kOff, kQuiet, kAsking, kReported};
constexpr std::array kHangPhaseNames = {"off", "quiet", "asking", "reported"};
constexpr std::array kHangEvents = {HangEvent::kStart,   HangEvent::kStop, HangEvent::kHold,   HangEvent::kProgress,
                                    HangEvent::kSilence, HangEvent::kHung, HangEvent::kHealthy};
constexpr std::array kHangEventNames = {"start", "stop", "hold", "progress", "silence", "hung", "healthy"};
static_assert(kHangPhases.size() == kHangPhaseNames.size() && kHangEvents.size() == kHangEventNames.size());

constexpr std::chrono::milliseconds kShortestTick{100};
constexpr std::chrono::milliseconds kLongestTick{5'000};
constexpr std::chrono::milliseconds kShortestLook{100};
constexpr std::chrono::milliseconds kLongestLook{2'000};
// The first questions come at each time limit, so that a late report comes after kLateFactor of them.
constexpr int kQuickQuestions = model::kLateFactor;
constexpr std::chrono::minutes kLongestPause{30};

}  // namespace

std::optional<HangStep> next_step(HangPhase from, HangEvent event) {
  const auto* const row =
      std::ranges::find_if(kHangTable, [&](const HangRow& each) { return each.from == from && each.event == event; });
  return row == kHangTable.end() ? std::nullopt : std::optional(row->step);
}

std::string_view name_of(HangPhase phase) {
  return kHangPhaseNames.at(static_cast<std::size_t>(phase));
}
std::string_view name_of(HangEvent event) {
  return kHangEventNames.at(static_cast<std::size_t>(event));
}
std::span<const HangPhase> all_hang_phases() {
  return kHangPhases;
}
std::span<const HangEvent> all_hang_events() {
  return kHangEvents;
}

HangWatch::HangWatch(base::Loop& loop, const base::Clock& clock, const model::HangPolicy& policy, Events events)
    : loop_(loop), clock_(clock), timeout_(policy.timeout), events_(std::move(events)) {}

void HangWatch::start() {
  if (timeout_.count() > 0) on(HangEvent::kStart);
}

void HangWatch::progressed() {
  const auto silent = silence();
  progress_at_ = clock_.now();
  const bool goes_on = phase_ == kReported;
  on(HangEvent::kProgress);
  asked_ = 0;
  pause_ = timeout_;
  ask_at_ = progress_at_ + timeout_;
  earlier_.clear();
  if (goes_on) events_.goes_on(silent);
}

std::chrono::milliseconds HangWatch::silence() const {
  if (phase_ == kOff) return std::chrono::milliseconds(0);
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.now() - progress_at_);
}

void HangWatch::on(HangEvent event) {
  const auto step = next_step(phase_, event);
  if (!step) return;
  phase_ = step->to;
  carry_out(step->action);
}

void HangWatch::carry_out(HangAction action) {
  switch (action) {
    case HangAction::kNone:
      break;
    case HangAction::kWatch:
      writes_ = events_.writes();
      ticks_ = loop_.every(std::clamp(timeout_ / 8, kShortestTick, kLongestTick), [this] { tick(); });
      progressed();
      break;
    case HangAction::kEnd:
      ticks_.cancel();
      drop();
      break;
    case HangAction::kAsk:
      ask();
      break;
    case HangAction::kDrop:
      drop();
      break;
    case HangAction::kReport:
      events_.report(*std::exchange(found_, std::nullopt));
      break;
    case HangAction::kWait:
      wait();
      break;
    case HangAction::kGoOn:  // progressed() reports it
      break;
  }
}

void HangWatch::tick() {
  if (const std::uint64_t writes = events_.writes(); writes != writes_) {
    writes_ = writes;
    return progressed();
  }
  if (!events_.expects_progress()) {
    on(HangEvent::kHold);
    if (phase_ == kReported) return;
    progress_at_ = clock_.now();
    ask_at_ = progress_at_ + timeout_;
    return;
  }
  if (phase_ == kQuiet && clock_.now() >= ask_at_) on(HangEvent::kSilence);
}

void HangWatch::ask() {
  ++asked_;
  const auto look = std::clamp(timeout_ / 8, kShortestLook, kLongestLook);
  inquiry_ = events_.ask({.number = 3, .apart = look, .pause = look}, [this](EvidenceRequests::Answers answers) {
    inquiry_.reset();
    decide(std::move(answers));
  });
  if (!inquiry_) on(HangEvent::kHealthy);
}

void HangWatch::decide(EvidenceRequests::Answers answers) {
  if (const std::uint64_t writes = events_.writes(); writes != writes_) {
    writes_ = writes;
    return progressed();
  }
  if (!events_.expects_progress()) return on(HangEvent::kHold);
  model::HangFacts facts{.looks = answers.looks, .earlier = std::move(earlier_)};
  facts.silent_ms = silence().count();
  facts.timeout_ms = timeout_.count();
  facts.looked_ms = answers.elapsed.count();
  facts.silent_hosts = std::move(answers.silent_hosts);
  facts.nccl = std::move(answers.nccl);
  events_.complete(facts);
  earlier_ = std::move(answers.looks);
  model::HangVerdict verdict = model::judge_hang(facts);
  if (!verdict.is_hung) return on(HangEvent::kHealthy);
  found_ = std::move(verdict.report);
  on(HangEvent::kHung);
}

void HangWatch::wait() {
  const base::Duration longest = std::max<base::Duration>(kLongestPause, timeout_);
  if (asked_ >= kQuickQuestions) pause_ = std::min<base::Duration>(2 * pause_, longest);
  ask_at_ = clock_.now() + pause_;
}

void HangWatch::drop() {
  if (inquiry_) events_.cancel(*std::exchange(inquiry_, std::nullopt));
}

}  // namespace muster::launcherd::run
