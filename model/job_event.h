// Events of a job as values; --json-events writes them. The writer of an event gives it its time and its number.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/exit_report.h"
#include "model/failure_policy.h"
#include "model/hang_report.h"
#include "model/job_state.h"
#include "model/placement.h"

namespace muster::model {

struct JobStarting {
  std::string job_id;
  Placement placement;
};

struct HostUp {
  std::string host;
  std::string link;  // "dial" or "ssh"
  std::string containment;
};

struct RankUp {
  int rank = 0;
  long pid = 0;
};

// The CPUs and GPUs of a rank on its host. It is no event. It stays the same after a restart of the launcher.
struct BoundRank {
  int rank = 0;
  std::string host{};
  int local_rank = 0;
  std::vector<int> cpus{};             // OS numbers; empty if not bound
  std::vector<int> gpus{};             // the rank's GPUs, by the driver's number; for a part, its GPU's number
  std::vector<std::string> devices{};  // the rank's devices, by name (model/device_id.h)

  bool operator==(const BoundRank&) const = default;
};

struct HostSuspect {
  std::string host;
  bool suspect = false;  // false if it answers again
};

// The job starts without these hosts, because they were not up in time (JobSpec::min_hosts). JobStarting follows with
// the new placement.
struct HostsLeftOut {
  std::vector<std::string> hosts;
  std::vector<std::string> reasons;  // one phrase for each host
};

// Returns "3 hosts are not up, so the job starts without them: n[0007-0008]: no answer …; n0912: connection refused".
std::string describe(const HostsLeftOut& left_out);

struct JobStopping {
  std::string reason;
};

// All ranks have ended because one of them failed, and the job starts again.
struct JobRestarting {
  int attempt = 0;  // the new attempt; the job's first is 0
  int rank = 0;     // the rank that failed
  std::string reason;
};

// The job goes on in a new generation: with other ranks, on other hosts, or with new processes. In an elastic job the
// processes of the ranks that stay live on.
struct GenerationBegan {
  int number = 0;                       // the new generation; the job's first is 0, which is no event
  int from = 0;                         // number of ranks before
  int to = 0;                           // number of ranks now
  std::vector<std::string> added{};     // hosts that have joined the job
  std::vector<std::string> lost{};      // hosts that have left it
  std::string reason{};                 // one phrase: "rank 3 on n2 was killed by signal 9 (SIGKILL)"
  std::chrono::milliseconds elapsed{};  // from the event that caused the change to the new generation
  Placement placement{};                // the ranks of the new generation
  // For each rank, the number that its process had in the generation before. -1 means a new process. Empty means that
  // all processes are new.
  std::vector<int> former{};
  std::vector<FailedHost> failed{};  // all hosts that the job leaves out now; not stored with the event
};

// Returns "generation 3: 8 → 6 ranks, n2 lost (lease over), 1.2 s".
std::string describe(const GenerationBegan& began);

// The ranks of a generation have ended their first collective. Only ranks that use libmuster report it.
struct FirstCollectiveEnded {
  int generation = 0;                   // 1 or more
  std::chrono::milliseconds elapsed{};  // from the event that caused the change, as GenerationBegan::elapsed
};

// Returns "generation 3: first collective after 0.13 s".
std::string describe(const FirstCollectiveEnded& ended);

struct JobEnded {
  std::string job_id;
  int exit_code = 0;
  int root_cause_rank = -1;  // -1 if there is none
  std::vector<RankEnd> ends;
  std::vector<std::string> stderr_tail;  // last lines of the root cause's rank
  int strays_killed = 0;
  std::vector<std::string> unclean_hosts;
  std::vector<int> alike_ranks = {};  // failed with the same Python exception as the root cause's rank, without it
  // False if a rank asked that the job is not started again (kNeverAgain); nullopt if the job did not fail by itself.
  std::optional<bool> is_retryable = {};
};

// An element of an array starts, or has ended.
struct ElementChanged {
  int index = 0;
  JobState state = JobState::kStarting;
  std::optional<int> exit_code = {};  // only of an element that has ended
};

// The command of --notify failed. This event follows JobEnded.
struct NotifyFailed {
  std::string reason;  // one phrase: "exit code 3"
};

// The job's state has changed, or only its reason.
struct JobStateChanged {
  JobState state = JobState::kQueued;
  std::string reason;
};

// The job seems to hang.
struct HangReported {
  HangReport report;
};

// Ranks that have formed groups of one size.
struct FormedWorld {
  int size = 0;              // of each group
  std::vector<int> ranks{};  // of the job, ascending
  std::string source{};      // how Muster knows: "libmuster", "MPI", "torchrun"
};

// The program has formed groups of other sizes than the job has ranks.
struct WrongWorld {
  int size = 0;  // ranks of the job
  std::vector<FormedWorld> formed{};
  std::string reason{};  // the likely one, with what to do
};

// Returns "8 ranks were started, but they have formed 8 worlds of 1 rank: …".
std::string describe(const WrongWorld& wrong);

// The ranks of a host came last in most of the compared operations.
struct LateHost {
  std::string host;
  std::int64_t late = 0;
  std::int64_t operations = 0;
  std::chrono::microseconds median{};  // by how much it was later than the median of the ranks
};

// Returns "48 ms" or "1.4 ms".
std::string describe_lateness(std::chrono::microseconds late);
// Returns "n5 came last in 83 % of 1204 steps, by 48 ms".
std::string describe(const LateHost& late);

// A RankEnd is the event of its rank's end.
using JobEvent = std::variant<JobStarting, HostUp, RankUp, RankEnd, HostSuspect, JobStopping, JobRestarting,
                              GenerationBegan, FirstCollectiveEnded, HangReported, JobEnded, JobStateChanged,
                              WrongWorld, LateHost, HostsLeftOut, NotifyFailed, ElementChanged>;

}  // namespace muster::model
