// Starts one process from a SpawnRequest: prepares everything, clones, and explains what failed.
//
// Owner: the warden process.
// Thread: single-threaded, with all signals blocked.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "agent/launch/spawn_request.h"
#include "agent/proc/bare_clone.h"
#include "agent/proc/cgroup.h"
#include "agent/process/child_exec.h"
#include "agent/process/warden_events.h"

namespace muster::agent::inline process {

struct Spawned {
  BareChild child;
  // The ends of the rank's stdin, stdout and stderr that the agent gets. RankStarted describes them.
  base::UniqueFd stdin_fd;
  base::UniqueFd stdout_fd;
  base::UniqueFd stderr_fd;
  base::MonotonicTime at{};
  base::UniqueFd pmi_fd{};
  std::string program{};  // absolute path
};

class Spawner {
 public:
  // `job_id` becomes MUSTER_JOB_ID of everything that it starts.
  // `notes` is a file for sweeps. Each process's pid and a lower bound of its start time are appended to it. Invalid
  // means no notes.
  // `tracer` and its descendants may trace the started processes. 0 means that no permission is needed, as in a PID
  // namespace, where only root can trace.
  static base::Result<Spawner> create(std::string job_id, base::UniqueFd notes = {}, pid_t tracer = 0);

  // `cgroup` may be null. If a process could not exec, this function reaps it.
  std::variant<Spawned, RankStartFailed> spawn(const SpawnRequest& request, const Cgroup* cgroup);

  // Checks that a process can be put into `cgroup`. The error says why not.
  base::Status try_cgroup(const Cgroup& cgroup);

 private:
  Spawner(std::string job_id, base::UniqueFd notes, pid_t tracer, ChildStack stack)
      : job_id_(std::move(job_id)), notes_(std::move(notes)), tracer_(tracer), stack_(std::move(stack)) {}
  base::Result<BareChild> clone_child(ChildPlan& plan, const Cgroup* cgroup);
  std::variant<Spawned, RankStartFailed> run(const SpawnRequest& request, const Cgroup* cgroup,
                                             const std::vector<std::string>& candidates,
                                             const std::vector<std::string>& argv);

  std::string job_id_;
  base::UniqueFd notes_;
  pid_t tracer_;
  ChildStack stack_;
  bool can_clone_into_cgroup_ = true;
};

}  // namespace muster::agent::process
