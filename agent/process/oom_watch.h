// Finds out if the kernel killed a rank because memory ran out.
//
// Owner: the warden process.
// Thread: single-threaded.
//
// It asks these sources, in this order:
// 1. the job's cgroup, if it has a memory controller
// 2. the kernel's log, if this process may read it; the log has only pids of the first PID namespace
// 3. the cgroup that limits the memory of the warden, and so of the ranks
// 4. the machine's count of such kills, which counts kills of other processes, too
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "agent/proc/cgroup.h"
#include "base/unique_fd.h"

namespace muster::agent::inline process {

enum class OomVerdict {
  kNo,  // also if this machine does not report it
  // Since the last call of judge(), the kernel has killed some process of this machine because memory ran out.
  kPerhaps,
  kYes,
};

struct OomSources {
  std::string memory_events = {};       // find_memory_events(); empty if there is no such file
  std::string vmstat = "/proc/vmstat";  // has the line oom_kill since Linux 4.13
  std::string log = "/dev/kmsg";
};

class OomWatch {
 public:
  // `cgroup` may be null. It must outlive the watch.
  explicit OomWatch(const Cgroup* cgroup, const OomSources& sources);
  // Uses the sources of this process.
  explicit OomWatch(const Cgroup* cgroup);

  // Call it once for each rank that ended by a SIGKILL which we did not send. `pid` is the one in the host's first
  // PID namespace.
  OomVerdict judge(pid_t pid);
  // Returns the number of processes that the kernel has killed under the ranks' memory limit since the last call. It
  // leaves out the ranks that judge() has counted.
  std::uint64_t take_others();

 private:
  // Returns the number of processes that the kernel killed because memory ran out, in the nearest cgroup that counts
  // them. nullopt if none counts.
  std::optional<std::uint64_t> kills_here() const;
  void read_log();

  const Cgroup* cgroup_;
  const OomSources sources_;
  std::uint64_t counted_ = 0;
  std::uint64_t machine_counted_ = 0;
  base::UniqueFd log_;
  std::unordered_set<pid_t> killed_;
};

// Returns the pid in a line of the kernel's log like "Out of memory: Killed process 4711 (python3) …". 0 for any
// other line.
pid_t pid_in_oom_line(std::string_view line);

}  // namespace muster::agent::process
