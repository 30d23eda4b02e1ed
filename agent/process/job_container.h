// Finds, signals and kills all processes of the job on this host. They are descendants of this process (a subreaper)
// or members of the job's cgroup. If this process is init of a PID namespace, they are all of its processes.
//
// Owner: the warden, or the agent when it cleans up in the warden's place.
// Thread: single-threaded.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/proc/cgroup.h"
#include "agent/proc/proc_table.h"
#include "agent/process/warden_events.h"

namespace muster::agent::inline process {

struct Member {
  ProcessInfo info;
  const char* why = "";
};

class JobContainer {
 public:
  // `spare` holds children that are not of the job. Their descendants are spared, too.
  JobContainer(std::optional<Cgroup> cgroup, bool is_namespace_init, std::vector<pid_t> spare = {});

  const std::optional<Cgroup>& cgroup() const { return cgroup_; }
  bool is_namespace_init() const { return is_namespace_init_; }

  // True is always correct. False may be wrong for some ms, while an ended process is not reaped yet.
  bool is_empty() const;
  std::vector<Member> members() const;  // includes dead processes that are not reaped yet
  void signal_all(int signo) const;
  void pause(bool on) const;
  void kill_once(const std::vector<Member>& members, int round) const;

 private:
  std::optional<Cgroup> cgroup_;
  bool is_namespace_init_;
  std::vector<pid_t> spare_;
};

struct KillReport {
  std::vector<Member> killed;  // all that were seen alive
  std::vector<Unkillable> stuck;
};

// Kills until nothing is left, for at most `bound`. Calls `reap` in every round; it must reap dead children.
KillReport kill_everything(const JobContainer& container, std::chrono::milliseconds bound,
                           const std::function<void(const std::vector<Member>&)>& reap);

}  // namespace muster::agent::process
