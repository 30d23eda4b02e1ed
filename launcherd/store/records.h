// What goes into the job store and what comes out: plain values. Bytes that the store keeps for others (specs, events,
// recovery) are opaque here.
//
// Values of environment variables go into NewJob::environment and nowhere else: no type that comes out of a query for
// views holds them (docs/adr/0011). Every field has an initialiser, so that a list of
// named fields may leave it out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "model/job_state.h"

namespace muster::launcherd::inline store {

// The longest value that is stored: spec, environment, recovery, message. Longer: INVALID_ARGUMENT.
constexpr std::size_t kLongestBlob = std::size_t{4} << 20;

// A job begins QUEUED.
struct NewJob {
  base::JobId id;
  std::string request_id{};  // the submitter's, so that a repeated Submit makes no second job; empty: none
  std::string name{};
  int priority = 0;
  base::WallTime submitted{};
  std::string reason{};       // why it waits
  std::string spec{};         // all that is needed to start it, but:
  std::string environment{};  // secret; gone when the job is final
};

// Where an event brings its job. Checked against model/job_state.h.
struct JobStep {
  model::JobState to{};
  std::string reason{};
  int attempt = 0;
  std::optional<int> exit_code{};  // with a final state
};

// Where an event brings a rank of one attempt. What was never told of is WAITING.
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

// The job's next event; the store numbers it.
struct NewEvent {
  base::JobId job;
  base::WallTime time{};
  std::string message{};  // a muster.v1.Event (proto/stored_event.h)
  std::optional<JobStep> job_step{};
  std::optional<RankStep> rank_step{};
};

// A queued job's reason alone ("needs 16 slots, 12 are free"): no event, it changes with every other job.
struct NewReason {
  base::JobId job;
  std::string reason{};
};

// What a later launcherd needs to find this job's agents again; replaces what was. Secret; gone when the job is final.
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

// Retention: the job with its events, ranks and request id. FAILED_PRECONDITION: it has not ended.
struct ForgetJob {
  base::JobId job;
};

using Change = std::variant<NewJob, NewEvent, NewReason, NewRecovery, StoredHost, ForgetHost, ForgetJob>;
// All of it or nothing, in this order.
using Batch = std::vector<Change>;

struct StoredJob {
  base::JobId id;
  std::int64_t number = 0;  // in order of submission, never used again
  std::string request_id{};
  std::string name{};
  int priority = 0;
  model::JobState state{};
  std::string reason{};
  int attempt = 0;
  std::optional<int> exit_code{};
  base::WallTime submitted{};
  std::optional<base::WallTime> started{};  // the last time that it got slots
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
  std::int64_t position = 0;   // among the events of all jobs
  std::uint64_t sequence = 0;  // 1, 2, 3, … within the job
  base::WallTime time{};
  std::optional<model::JobState> job_state{};  // into which it brought the job
  std::string message{};
};

struct JobPage {
  std::vector<StoredJob> jobs;
  std::string next{};  // page token; empty: there are no more
};

}  // namespace muster::launcherd::store
