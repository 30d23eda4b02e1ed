// Whether the kernel killed a rank for want of memory: by the job's cgroup where it has a memory controller, else by
// the kernel's log where we may read it, else unknown (false). Owner: the warden process; single-threaded.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string_view>
#include <unordered_set>

#include "agent/process/cgroup.h"
#include "base/unique_fd.h"

namespace muster::agent {

class OomWatch {
 public:
  explicit OomWatch(const Cgroup* cgroup);  // may be null; must outlive the watch

  // Ask once for a rank that ended by SIGKILL which we did not send. `pid` as the host's first namespace knows it.
  bool was_killed(pid_t pid);

 private:
  void read_log();

  const Cgroup* cgroup_;
  std::uint64_t counted_ = 0;
  base::UniqueFd log_;
  std::unordered_set<pid_t> killed_;
};

// The pid in a line of the kernel's log like "Out of memory: Killed process 4711 (python3) …"; 0: another line.
pid_t pid_in_oom_line(std::string_view line);

}  // namespace muster::agent
