// The life of a job and of its ranks as two state tables: (state, trigger) -> next state, or not allowed. Pure; the
// tables are in job_state.cc and nowhere else. The code that drives a job asks the table and records the answer. If the
// table does not allow a step, that is a bug or an error for a user ("the job has ended"), never a silent no-op.
//
//   QUEUED -> STARTING -> RUNNING -> STOPPING -> SUCCEEDED | FAILED | KILLED | LOST
//
// A job goes back to QUEUED when no rank of it was started, and to STARTING when it starts again after a failure. Only
// QUEUED and STOPPING lead to KILLED, because a running job is stopped first. Final states are never left.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "model/exit_report.h"

namespace muster::model {

// Numbers are stored and sent (JobState of job.proto), so never change or reuse them.
enum class JobState {
  kQueued = 1,     // waits for slots
  kStarting = 2,   // the launcher has asked hosts to start the job; ranks may run
  kRunning = 3,    // all ranks have started
  kStopping = 4,   // ranks are being ended
  kSucceeded = 5,  // final: exit code 0
  kFailed = 6,     // final: a rank, a host or its start failed
  kKilled = 7,     // final: ended at the request of a user or by its deadline
  kLost = 8,       // final: its outcome is unknown
};

enum class JobTrigger {
  kStart,      // slots were assigned
  kRequeue,    // the job could not start and none of its ranks runs, so its slots are free again
  kAllUp,      // the last rank has started
  kStop,       // a user, the deadline or a rank's failure ends its ranks; repeated, it ends them with more force
  kRestart,    // all ranks have ended after a failure, and it may start again
  kEndWell,    // all ranks have ended, exit code 0
  kEndBadly,   // all ranks have ended with another exit code; for a queued job: it can never start
  kEndKilled,  // all ranks have ended after a request to end the job
  kLoseTrack,  // the job's hosts did not return within their leases, so its outcome is unknown
  kHold,       // a user keeps the waiting job from starting
  kRelease,    // a user ends the hold
};

struct JobTransition {
  JobState to;
  std::string_view reason;  // shown by `status`, unless the code that moves the job gives a better one; never empty
};

// nullopt if the transition is not allowed.
std::optional<JobTransition> next_state(JobState from, JobTrigger trigger);
// Returns whether some trigger leads from `from` to `to`.
bool can_follow(JobState from, JobState to);
bool is_final(JobState state);

// The state of one attempt of one rank. Numbers are stored, so never change or reuse them.
enum class RankState {
  kWaiting = 1,  // not started
  kRunning = 2,
  kSucceeded = 3,  // final: exited with 0
  kFailed = 4,     // final: failed by itself or could not be started
  kStopped = 5,    // final: after Muster's TERM or KILL
  kLost = 6,       // final: its host was lost
};

enum class RankTrigger { kStart, kEndWell, kEndBadly, kEndStopped, kLoseHost };

std::optional<RankState> next_state(RankState from, RankTrigger trigger);
bool can_follow(RankState from, RankState to);
bool is_final(RankState state);
RankTrigger trigger_of(const RankEnd& end);

// These return names such as "QUEUED", as users see them. For a number from outside, nullopt if there is no such state.
std::string_view name_of(JobState state);
std::string_view name_of(RankState state);
std::optional<JobState> job_state_of(long number);
std::optional<RankState> rank_state_of(long number);

std::span<const JobState> all_job_states();
std::span<const JobTrigger> all_job_triggers();
std::span<const RankState> all_rank_states();
std::span<const RankTrigger> all_rank_triggers();

}  // namespace muster::model
