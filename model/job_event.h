// Events of a job as values; --json-events writes them. The writer of an event gives it its time and its number.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "model/exit_report.h"
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

struct JobStopping {
  std::string reason;
};

// All ranks have ended because one of them failed, and the job starts again.
struct JobRestarting {
  int attempt = 0;  // the new attempt; the job's first is 0
  int rank = 0;     // the rank that failed
  std::string reason;
};

struct JobEnded {
  std::string job_id;
  int exit_code = 0;
  int root_cause_rank = -1;  // -1 if there is none
  std::vector<RankEnd> ends;
  std::vector<std::string> stderr_tail;  // last lines of the root cause's rank
  int strays_killed = 0;
  std::vector<std::string> unclean_hosts;
};

// The job's state has changed.
struct JobStateChanged {
  JobState state = JobState::kQueued;
  std::string reason;
};

// A RankEnd is the event of its rank's end.
using JobEvent = std::variant<JobStarting, HostUp, RankUp, RankEnd, HostSuspect, JobStopping, JobRestarting, JobEnded,
                              JobStateChanged>;

}  // namespace muster::model
