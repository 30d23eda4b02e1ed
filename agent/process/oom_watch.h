// Whether the kernel killed a rank for want of memory. Owner: the warden process; single-threaded.
//
// Asked in this order: the job's cgroup, where it has a memory controller; the kernel's log, where we may read it; the
// cgroup that limits the warden's own memory, with it the ranks'; the machine's count of such kills. The log has the
// numbers of the first PID namespace only, and the last of these counts kills of others, too.
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
  kNo,       // also when this machine does not tell
  kPerhaps,  // somebody was killed for want of memory on this machine meanwhile
  kYes,
};

struct OomSources {
  std::string memory_events = {};       // find_memory_events(); empty: none
  std::string vmstat = "/proc/vmstat";  // has oom_kill since Linux 4.13
  std::string log = "/dev/kmsg";
};

class OomWatch {
 public:
  // `cgroup` may be null; must outlive the watch.
  explicit OomWatch(const Cgroup* cgroup, const OomSources& sources);
  // The sources of this process.
  explicit OomWatch(const Cgroup* cgroup);

  // Ask once for a rank that ended by SIGKILL which we did not send. `pid` as the host's first namespace knows it.
  OomVerdict judge(pid_t pid);
  // Kills under the same limit that no rank was judged for, since the last call.
  std::uint64_t take_others();

 private:
  // How many processes the kernel has killed for want of memory in the nearest cgroup that counts them; nullopt: none
  // does.
  std::optional<std::uint64_t> kills_here() const;
  void read_log();

  const Cgroup* cgroup_;
  const OomSources sources_;
  std::uint64_t counted_ = 0;
  std::uint64_t machine_counted_ = 0;
  base::UniqueFd log_;
  std::unordered_set<pid_t> killed_;
};

// The pid in a line of the kernel's log like "Out of memory: Killed process 4711 (python3) …"; 0: another line.
pid_t pid_in_oom_line(std::string_view line);

}  // namespace muster::agent::process
