// Starts one process from a SpawnRequest: prepares everything, clones, and explains what failed. Owner: the warden
// process; single-threaded, all signals blocked.
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
  base::UniqueFd stdin_fd;  // as RankStarted has them
  base::UniqueFd stdout_fd;
  base::UniqueFd stderr_fd;
  base::MonotonicTime at{};
  base::UniqueFd pmi_fd{};
};

class Spawner {
 public:
  // `job_id` becomes MUSTER_JOB_ID of all that it starts. `notes`: a file to which each process's pid and a lower bound
  // of its start time are appended, for a sweep; invalid for none. `tracer`: who may trace what it starts, with all its
  // descendants; 0: nobody needs leave (in a PID namespace, where only root is).
  static base::Result<Spawner> create(std::string job_id, base::UniqueFd notes = {}, pid_t tracer = 0);

  // `cgroup` may be null. A process that could not exec is reaped here.
  std::variant<Spawned, RankStartFailed> spawn(const SpawnRequest& request, const Cgroup* cgroup);

  // Whether a process can be put into `cgroup`; the error says why not.
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
