// Processes as /proc shows them: a snapshot, and questions to it. /proc/<pid>/stat never blocks, unlike environ and
// cmdline, which wait for the process's memory lock. Plain values; single-threaded.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace muster::agent::inline proc {

struct ProcessInfo {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  char state = '?';
  std::uint64_t start_time = 0;  // clock ticks since boot: with the pid it names one process for ever
  std::string command;

  bool is_dead() const { return state == 'Z' || state == 'X'; }
};

// nullopt: it has ended.
std::optional<ProcessInfo> read_process(pid_t pid);

// All that this /proc shows, in order of pid.
std::vector<ProcessInfo> read_all_processes();

// Those below `root` in `table`, without `root` and without the subtrees of `spare`.
std::vector<ProcessInfo> descendants(const std::vector<ProcessInfo>& table, pid_t root,
                                     const std::vector<pid_t>& spare = {});

// `pid` and its parents up to pid 1.
std::vector<pid_t> ancestors(pid_t pid);

// Whether its real uid is `uid`. False: it has ended, too.
bool is_of_user(pid_t pid, uid_t uid);

// The kernel function that it waits in; empty when unknown.
std::string wait_channel(pid_t pid);

// Parses the content of /proc/<pid>/stat; nullopt: not of that form.
std::optional<ProcessInfo> parse_stat(std::string_view content);

// Signals exactly the process that `info` describes, by pidfd where the kernel has it: a reused pid is never hit.
// False: it has ended, or may not be signalled.
bool signal_process(const ProcessInfo& info, int signo);

// The start time that a process made now would have.
std::uint64_t ticks_since_boot();

// For an fd made by pidfd_open: the pid as seen by the /proc that `proc_fd` is open on; 0: unknown.
pid_t pid_of_pidfd(int proc_fd, int pidfd);

// pidfd_open(2); invalid where the kernel lacks it (before 5.3) or the process has ended.
base::UniqueFd open_pidfd(pid_t pid);
bool send_by_pidfd(int pidfd, int signo);

}  // namespace muster::agent::proc
