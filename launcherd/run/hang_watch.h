// Watches whether a running job makes progress. If it makes none for HangPolicy::timeout, the watch asks the agents
// what their ranks do, and reports the job if it hangs (model/hang_rules.h).
//
// Progress is any output of a rank, and progressed(). If the ranks turn out to work, the watch asks again after the
// time limit, and then after pauses that grow, because a question costs each rank some milliseconds.
//
// The phases are a table: (phase, event) -> next phase and action. A pair that is not in the table cannot happen.
// docs/design.md shows the table as a diagram.
//
// Owner: JobRunner's core.
// Thread: loop thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "base/clock.h"
#include "base/loop.h"
#include "launcherd/run/evidence_requests.h"
#include "model/hang_policy.h"
#include "model/hang_rules.h"

namespace muster::launcherd::inline run {

enum class HangPhase {
  kOff,       // the job does not run, or the watch is switched off
  kQuiet,     // the job runs; its last progress may be a while ago
  kAsking,    // agents are asked what their ranks do
  kReported,  // the job hangs, and was reported
};

enum class HangEvent {
  kStart,     // the ranks run
  kStop,      // the job is being stopped, or is over
  kHold,      // progress is not expected now: the job is suspended, or its ranks change
  kProgress,  // a rank has written something, or has finished an operation
  kSilence,   // there was no progress for the time limit, or for the pause
  kHung,      // the answers show a hang
  kHealthy,   // they do not
};

enum class HangAction {
  kNone,    // only the phase changes
  kWatch,   // start the timer
  kEnd,     // stop the timer, drop answers
  kAsk,     // ask the agents
  kDrop,    // drop the answers
  kReport,  // report the hang
  kWait,    // ask again after a pause
  kGoOn,    // report that the job goes on
};

struct HangStep {
  HangPhase to;
  HangAction action;
  friend bool operator==(const HangStep&, const HangStep&) = default;
};

// nullopt if the event cannot happen in that phase.
std::optional<HangStep> next_step(HangPhase from, HangEvent event);

std::string_view name_of(HangPhase phase);
std::string_view name_of(HangEvent event);
std::span<const HangPhase> all_hang_phases();
std::span<const HangEvent> all_hang_events();

class HangWatch {
 public:
  struct Events {
    std::function<bool()> expects_progress;  // false while the job is suspended or its ranks change
    std::function<std::uint64_t()> writes;   // changes if a rank has written something
    // Asks all agents and returns the number of the inquiry; nullopt if no agent can be asked.
    std::function<std::optional<std::uint64_t>(EvidenceRequests::Rounds rounds, EvidenceRequests::Done done)> ask;
    std::function<void(std::uint64_t inquiry)> cancel;
    std::function<void(const model::HangReport& report)> report;
    // The job has made progress after a report. `silent` is the time without.
    std::function<void(std::chrono::milliseconds silent)> goes_on;
    // Completes what the watch knows: the size of the job, its generation and the ranks that have ended.
    std::function<void(model::HangFacts& facts)> complete;
  };

  HangWatch(base::Loop& loop, const base::Clock& clock, const model::HangPolicy& policy, Events events);

  // Call these when the ranks run, and when the job begins to stop or to end. A watch whose limit is 0 stays off.
  void start();
  void stop() { on(HangEvent::kStop); }
  // Call this when a rank has made progress that is no output, such as an operation of libmuster.
  void progressed();

  HangPhase phase() const { return phase_; }
  // The time without progress; zero if the watch is off.
  std::chrono::milliseconds silence() const;

 private:
  void on(HangEvent event);
  void carry_out(HangAction action);
  void tick();
  void ask();
  void decide(EvidenceRequests::Answers answers);
  void wait();
  void drop();

  base::Loop& loop_;
  const base::Clock& clock_;
  const std::chrono::milliseconds timeout_;
  const Events events_;
  HangPhase phase_ = HangPhase::kOff;
  base::Timer ticks_;
  std::uint64_t writes_ = 0;           // at the last tick
  base::MonotonicTime progress_at_{};  // the last progress
  base::MonotonicTime ask_at_{};
  base::Duration pause_{};                  // before the next question
  int asked_ = 0;                           // questions since the last progress
  std::optional<std::uint64_t> inquiry_;    // the open one
  std::vector<model::HangLook> earlier_;    // the looks of the last question since the last progress
  std::optional<model::HangReport> found_;  // what decide() has found
};

}  // namespace muster::launcherd::run
