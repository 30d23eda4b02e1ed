// Finds out if the kernel killed a rank because memory ran out.
//
// Owner: the warden process.
// Thread: single-threaded.
//
// It asks these sources, in this order:
// 1. the job's cgroup, if it has a memory controller
// 2. the kernel's log, if this process may read it. The log has only pids of the first PID namespace. In another
//    namespace a line is of the rank if the name of the program, the time and the memory fit.
// 3. the cgroup that limits the memory of the warden, and so of the ranks
// 4. the machine's count of such kills, which counts kills of other processes, too
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "agent/proc/cgroup.h"
#include "base/unique_fd.h"

namespace muster::agent::inline process {

enum class OomVerdict {
  kNo,  // also if this machine does not report it
  // Since the last call of judge(), the kernel has killed some process of this machine because memory ran out.
  kPerhaps,
  kYes,
};

// A rank that ended by a SIGKILL which we did not send.
struct KilledRank {
  pid_t pid = 0;             // in the outermost PID namespace that is known
  std::string command = {};  // its name in /proc; empty if unknown
  std::uint64_t peak_kib = 0;
};

// A record of the kernel's log like "3,1234,5678901,-;Out of memory: Killed process 4711 (python3) total-vm:…".
struct OomLine {
  std::chrono::microseconds at{};  // since boot
  pid_t pid = 0;                   // in the first PID namespace
  std::string command;
  std::uint64_t resident_kib = 0;  // 0 if the line does not have it
  std::string text;                // without the record's prefix
};

// nullopt for any other record.
std::optional<OomLine> parse_oom_line(std::string_view record);

struct OomJudgement {
  OomVerdict verdict = OomVerdict::kNo;
  std::string kernel_line = {};  // that is about the rank, or seems to be; empty if there is none
};

struct OomSources {
  std::string memory_events = {};       // find_memory_events(); empty if there is no such file
  std::string vmstat = "/proc/vmstat";  // has the line oom_kill since Linux 4.13
  std::string log = "/dev/kmsg";
};

// Returns the cgroup's and the kernel's files of this process.
OomSources own_oom_sources();

class OomWatch {
 public:
  // `cgroup` may be null. It must outlive the watch.
  explicit OomWatch(const Cgroup* cgroup, const OomSources& sources);
  // Uses the sources of this process.
  explicit OomWatch(const Cgroup* cgroup);

  // Call it once for each such rank. `now` is the time since boot, as the kernel's log counts it.
  OomJudgement judge(const KilledRank& rank, std::chrono::microseconds now);
  // Returns the number of processes that the kernel has killed under the ranks' memory limit since the last call. It
  // leaves out the ranks that judge() has counted.
  std::uint64_t take_others();

 private:
  // Returns the number of processes that the kernel killed because memory ran out, in the nearest cgroup that counts
  // them. nullopt if none counts.
  std::optional<std::uint64_t> kills_here() const;
  void read_log();
  // Removes the line about the rank and returns it. nullopt if there is none.
  std::optional<OomLine> take_line(const KilledRank& rank, std::chrono::microseconds now);

  const Cgroup* cgroup_;
  const OomSources sources_;
  std::uint64_t counted_ = 0;
  std::uint64_t machine_counted_ = 0;
  base::UniqueFd log_;
  std::deque<OomLine> lines_;  // read from the log, not matched yet
};

}  // namespace muster::agent::process
