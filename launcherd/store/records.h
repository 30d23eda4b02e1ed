// The values that go into the job store and come out of it. They are plain values. The store does not interpret the
// bytes of specs, events and recoveries.
//
// Values of environment variables are stored only in NewJob::environment. No query for views returns them
// (docs/adr/0011).
// Every field has an initialiser, so that designated initialisers may omit it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "model/job_dependency.h"
#include "model/job_state.h"

namespace muster::launcherd::inline store {

// The longest value that the store accepts: spec, environment, recovery or message. Longer values get
// INVALID_ARGUMENT.
constexpr std::size_t kLongestBlob = std::size_t{4} << 20;
// The most events of one NewEvents. A page of events reads a whole row.
constexpr std::size_t kMostGrouped = 256;

// The place of an element in its array.
struct ArrayPlace {
  base::JobId array;
  int index = 0;
};

// A new job. Its state is QUEUED.
struct NewJob {
  base::JobId id;
  // The submitter chooses this id, so that a repeated Submit creates no second job. Empty means no id.
  std::string request_id{};
  std::string name{};
  int priority = 0;
  std::string user{};  // who submitted it; may be empty
  base::WallTime submitted{};
  std::optional<std::string> held_by{};       // nullopt if the job may start; see NewHold
  std::string reason{};                       // why the job waits
  std::string spec{};                         // everything that the start of the job needs, except the environment
  std::string environment{};                  // secret; deleted when the job is final
  std::vector<model::JobDependency> after{};  // each job at most once; see NewAfter
  std::optional<ArrayPlace> element{};        // nullopt for a job that is no element of an array
  bool notifies = false;                      // a command must run when the job has ended; see NotifyDone
};

// The state into which an event brings its job. The store checks it against model/job_state.h.
struct JobStep {
  model::JobState to{};
  std::string reason{};
  int attempt = 0;
  std::optional<int> exit_code{};  // set only with a final state
};

// The state into which an event brings a rank of one attempt. A rank without such an event is WAITING.
struct RankStep {
  int attempt = 0;
  int rank = 0;
  model::RankState to{};
  std::string host{};
  long pid = 0;
  int exit_code = 0;
  int signal = 0;
  std::string detail{};
};

// The next event of the job. The store assigns the event's number.
struct NewEvent {
  base::JobId job;
  base::WallTime time{};
  std::string message{};  // a muster.v1.Event (proto/stored_event.h)
  std::optional<JobStep> job_step{};
  std::optional<RankStep> rank_step{};
};

// The next events of the job, in order, such as the starts of many ranks. The store keeps them as one row, and returns
// them one by one. At most kMostGrouped.
struct NewEvents {
  struct Event {
    std::string message{};  // as NewEvent::message
    std::optional<RankStep> rank_step{};
  };
  base::JobId job;
  base::WallTime time{};  // of the last one
  std::vector<Event> events{};
};

// A new reason of a queued job ("needs 16 slots, 12 are free"). A reason is no event, because it may change whenever
// another job does.
struct NewReason {
  base::JobId job;
  std::string reason{};
};

// Holds a queued job, or ends its hold. FAILED_PRECONDITION if the job is not queued.
struct NewHold {
  base::JobId job;
  std::optional<std::string> held_by{};  // who holds the job, may be empty; nullopt ends the hold
};

// Replaces the jobs for which a queued job waits. FAILED_PRECONDITION if the job is not queued.
struct NewAfter {
  base::JobId job;
  std::vector<model::JobDependency> after{};  // each job at most once
};

// Changes the priority or the spec of a job. FAILED_PRECONDITION if the job is final.
struct NewTerms {
  base::JobId job;
  std::optional<int> priority{};      // nullopt if unchanged
  std::optional<std::string> spec{};  // nullopt if unchanged
};

// The command of NewJob::notifies has run.
struct NotifyDone {
  base::JobId job;
};

// The record by which a later launcherd finds this job's agents. A new record replaces the earlier record. Secret;
// deleted when the job is final.
struct NewRecovery {
  base::JobId job;
  std::string content{};
};

struct StoredHost {
  std::string name{};
  int slots = 0;
  bool drained = false;
  std::string reason{};
  base::WallTime changed{};
};

struct ForgetHost {
  std::string name{};
};

// Deletes an old job with its events, ranks and request id. FAILED_PRECONDITION if the job has not ended.
struct ForgetJob {
  base::JobId job;
};

using Change = std::variant<NewJob, NewEvent, NewEvents, NewReason, NewHold, NewAfter, NewTerms, NotifyDone,
                            NewRecovery, StoredHost, ForgetHost, ForgetJob>;
// The store applies all changes in this order, or none.
using Batch = std::vector<Change>;

struct StoredJob {
  base::JobId id;
  std::int64_t number = 0;  // in order of submission; never reused
  std::string request_id{};
  std::string name{};
  int priority = 0;
  std::string user{};
  model::JobState state{};
  std::optional<std::string> held_by{};  // as in NewHold; without meaning once the job has started
  std::string reason{};
  int attempt = 0;
  std::optional<int> exit_code{};
  base::WallTime submitted{};
  std::optional<base::WallTime> started{};  // when it last got slots; nullopt if it never got slots
  std::optional<base::WallTime> ended{};
  std::uint64_t last_sequence = 0;
  std::optional<ArrayPlace> element{};
};

// An element of an array that has started, or ended without a start.
struct StoredElement {
  base::JobId id;
  int index = 0;
  model::JobState state{};
  std::optional<int> exit_code{};
};

// The fields by which a list of jobs is sorted and filtered. Kept short, because a list may read them of all jobs.
struct JobKey {
  std::int64_t number = 0;
  model::JobState state{};
  int priority = 0;
  int attempt = 0;
  std::string name{};
  std::optional<base::WallTime> started{};
  std::optional<base::WallTime> ended{};
  std::uint64_t last_sequence = 0;
};

struct StoredRank {
  int attempt = 0;
  int rank = 0;
  model::RankState state{};
  std::string host{};
  long pid = 0;
  int exit_code = 0;
  int signal = 0;
  std::string detail{};
};

struct StoredEvent {
  base::JobId job;
  std::int64_t position = 0;   // among the rows of all jobs; the events of one NewEvents share it
  std::uint64_t sequence = 0;  // 1, 2, 3, … within the job
  base::WallTime time{};
  std::optional<model::JobState> job_state{};  // the job's state after this event; nullopt if unchanged
  std::string message{};
};

struct JobPage {
  std::vector<StoredJob> jobs;
  std::string next{};  // page token; empty if there are no more jobs
};

}  // namespace muster::launcherd::store
