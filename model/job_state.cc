// The state tables of jobs and ranks, and the functions that read them.
// Read kJobTable and the rank's table first; the functions only look rows up.
#include "model/job_state.h"

#include <algorithm>
#include <array>

namespace muster::model {
namespace {

using enum JobState;
using enum JobTrigger;

struct JobRow {
  JobState from;
  JobTrigger trigger;
  JobTransition transition;
};

// All ranks can end before the last one is reported as started. So STARTING has the same final transitions as RUNNING.
constexpr std::array kJobTable = {
    JobRow{kQueued, kStart, {kStarting, "its hosts start it"}},
    JobRow{kQueued, kEndBadly, {kFailed, "it can never start"}},
    JobRow{kQueued, kEndKilled, {kKilled, "killed before it started"}},
    JobRow{kQueued, kHold, {kQueued, "held"}},
    JobRow{kQueued, kRelease, {kQueued, "released, waits for slots"}},

    JobRow{kStarting, kRequeue, {kQueued, "could not be started, waits for slots"}},
    JobRow{kStarting, kAllUp, {kRunning, "all ranks have started"}},
    JobRow{kStarting, kStop, {kStopping, "its ranks are being ended"}},
    JobRow{kStarting, kRestart, {kStarting, "a rank failed at the start, starts again"}},
    JobRow{kStarting, kEndWell, {kSucceeded, "all ranks ended with exit code 0"}},
    JobRow{kStarting, kEndBadly, {kFailed, "failed at the start"}},
    JobRow{kStarting, kLoseTrack, {kLost, "its hosts were lost while it started"}},

    JobRow{kRunning, kStop, {kStopping, "its ranks are being ended"}},
    JobRow{kRunning, kRestart, {kStarting, "a rank failed, starts again"}},
    JobRow{kRunning, kEndWell, {kSucceeded, "all ranks ended with exit code 0"}},
    JobRow{kRunning, kEndBadly, {kFailed, "a rank failed"}},
    JobRow{kRunning, kLoseTrack, {kLost, "its hosts were lost, how it ended is unknown"}},

    JobRow{kStopping, kStop, {kStopping, "its ranks are being ended, again"}},
    JobRow{kStopping, kRestart, {kStarting, "a rank failed, starts again"}},
    JobRow{kStopping, kEndWell, {kSucceeded, "all ranks ended with exit code 0"}},
    JobRow{kStopping, kEndBadly, {kFailed, "a rank failed"}},
    JobRow{kStopping, kEndKilled, {kKilled, "killed"}},
    JobRow{kStopping, kLoseTrack, {kLost, "its hosts were lost while it was stopped"}},
};

struct RankRow {
  RankState from;
  RankTrigger trigger;
  RankState to;
};

constexpr std::array kRankTable = {
    RankRow{RankState::kWaiting, RankTrigger::kStart, RankState::kRunning},
    RankRow{RankState::kWaiting, RankTrigger::kEndBadly, RankState::kFailed},
    RankRow{RankState::kWaiting, RankTrigger::kEndStopped, RankState::kStopped},
    RankRow{RankState::kWaiting, RankTrigger::kLoseHost, RankState::kLost},

    RankRow{RankState::kRunning, RankTrigger::kEndWell, RankState::kSucceeded},
    RankRow{RankState::kRunning, RankTrigger::kEndBadly, RankState::kFailed},
    RankRow{RankState::kRunning, RankTrigger::kEndStopped, RankState::kStopped},
    RankRow{RankState::kRunning, RankTrigger::kLoseHost, RankState::kLost},
};

constexpr std::array kJobStates = {kQueued, kStarting, kRunning, kStopping, kSucceeded, kFailed, kKilled, kLost};
constexpr std::array kJobStateNames = {"QUEUED",    "STARTING", "RUNNING", "STOPPING",
                                       "SUCCEEDED", "FAILED",   "KILLED",  "LOST"};
constexpr std::array kJobTriggers = {kStart,    kRequeue,   kAllUp,     kStop, kRestart, kEndWell,
                                     kEndBadly, kEndKilled, kLoseTrack, kHold, kRelease};
constexpr std::array kRankStates = {RankState::kWaiting, RankState::kRunning, RankState::kSucceeded,
                                    RankState::kFailed,  RankState::kStopped, RankState::kLost};
constexpr std::array kRankStateNames = {"WAITING", "RUNNING", "SUCCEEDED", "FAILED", "STOPPED", "LOST"};
constexpr std::array kRankTriggers = {RankTrigger::kStart, RankTrigger::kEndWell, RankTrigger::kEndBadly,
                                      RankTrigger::kEndStopped, RankTrigger::kLoseHost};

static_assert(kJobStates.size() == kJobStateNames.size() && kRankStates.size() == kRankStateNames.size());

// States are numbered from 1 without a gap, so the number is the position plus one.
template <typename States>
auto state_of(const States& states, long number) -> std::optional<typename States::value_type> {
  if (number < 1 || number > static_cast<long>(states.size())) return std::nullopt;
  return states[static_cast<std::size_t>(number - 1)];
}

}  // namespace

std::optional<JobTransition> next_state(JobState from, JobTrigger trigger) {
  const auto* const row =
      std::ranges::find_if(kJobTable, [&](const JobRow& each) { return each.from == from && each.trigger == trigger; });
  if (row == kJobTable.end()) return std::nullopt;
  return row->transition;
}

bool can_follow(JobState from, JobState to) {
  return std::ranges::any_of(kJobTable,
                             [&](const JobRow& each) { return each.from == from && each.transition.to == to; });
}

bool is_final(JobState state) {
  return state == kSucceeded || state == kFailed || state == kKilled || state == kLost;
}

std::optional<RankState> next_state(RankState from, RankTrigger trigger) {
  const auto* const row = std::ranges::find_if(
      kRankTable, [&](const RankRow& each) { return each.from == from && each.trigger == trigger; });
  if (row == kRankTable.end()) return std::nullopt;
  return row->to;
}

bool can_follow(RankState from, RankState to) {
  return std::ranges::any_of(kRankTable, [&](const RankRow& each) { return each.from == from && each.to == to; });
}

bool is_final(RankState state) {
  return state != RankState::kWaiting && state != RankState::kRunning;
}

RankTrigger trigger_of(const RankEnd& end) {
  switch (end.kind) {
    case EndKind::kExited:
      return end.failed() ? RankTrigger::kEndBadly : RankTrigger::kEndWell;
    case EndKind::kSignalled:
    case EndKind::kStartFailed:
      return RankTrigger::kEndBadly;
    case EndKind::kStopped:
      return RankTrigger::kEndStopped;
    case EndKind::kHostLost:
      return RankTrigger::kLoseHost;
  }
  return RankTrigger::kEndBadly;
}

std::string_view name_of(JobState state) {
  return kJobStateNames[static_cast<std::size_t>(state) - 1];
}

std::string_view name_of(RankState state) {
  return kRankStateNames[static_cast<std::size_t>(state) - 1];
}

std::optional<JobState> job_state_of(long number) {
  return state_of(kJobStates, number);
}

std::optional<RankState> rank_state_of(long number) {
  return state_of(kRankStates, number);
}

std::span<const JobState> all_job_states() {
  return kJobStates;
}

std::span<const JobTrigger> all_job_triggers() {
  return kJobTriggers;
}

std::span<const RankState> all_rank_states() {
  return kRankStates;
}

std::span<const RankTrigger> all_rank_triggers() {
  return kRankTriggers;
}

}  // namespace muster::model
