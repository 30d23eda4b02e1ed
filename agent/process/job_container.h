// Everything of the job on this host, whichever way it is held: descendants of this process (a subreaper), the members
// of the job's cgroup, or all of the PID namespace whose init this process is. Lists, signals, kills.
// Owner: the warden, or a clean-up in its place; single-threaded.
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
  // `spare`: children that are not of the job, with all below them.
  JobContainer(std::optional<Cgroup> cgroup, bool is_namespace_init, std::vector<pid_t> spare = {});

  const std::optional<Cgroup>& cgroup() const { return cgroup_; }
  bool is_namespace_init() const { return is_namespace_init_; }

  // False may be wrong for some ms (a process that has ended and is not reaped); true is right.
  bool is_empty() const;
  std::vector<Member> members() const;  // with the dead that nobody has reaped yet
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

// Kills until nothing is left, for at most `bound`. `reap` is called in every round and must reap dead children.
KillReport kill_everything(const JobContainer& container, std::chrono::milliseconds bound,
                           const std::function<void(const std::vector<Member>&)>& reap);

}  // namespace muster::agent::process
