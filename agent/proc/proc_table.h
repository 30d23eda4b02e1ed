// Processes as /proc shows them: a snapshot, and functions that query it.
// Reading /proc/<pid>/stat never blocks. Reading environ and cmdline waits for the process's memory lock.
//
// Thread: single-threaded. Plain values.
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
  // Clock ticks since boot; together with the pid it identifies one process for ever.
  std::uint64_t start_time = 0;
  // CPU time in clock ticks, of the process and of the children that it has reaped.
  std::uint64_t cpu_ticks = 0;
  std::string command;

  bool is_dead() const { return state == 'Z' || state == 'X'; }
};

// nullopt if the process has ended.
std::optional<ProcessInfo> read_process(pid_t pid);

// Returns all processes that this /proc shows, in order of pid.
std::vector<ProcessInfo> read_all_processes();

// Returns the processes of `table` below `root`. `root` and the subtrees of `spare` are left out.
std::vector<ProcessInfo> descendants(const std::vector<ProcessInfo>& table, pid_t root,
                                     const std::vector<pid_t>& spare = {});

// Returns `pid` and its parents up to pid 1.
std::vector<pid_t> ancestors(pid_t pid);

// True if the process's real uid is `uid`. False also if it has ended.
bool is_of_user(pid_t pid, uid_t uid);

// Returns the kernel function in which the process waits. Empty if unknown.
std::string wait_channel(pid_t pid);

// Parses the content of /proc/<pid>/stat. nullopt if it is malformed.
std::optional<ProcessInfo> parse_stat(std::string_view content);

// Signals exactly the process that `info` describes. With a pidfd, where the kernel has it, a reused pid is never
// hit. False if the process has ended or may not be signalled.
bool signal_process(const ProcessInfo& info, int signo);

// Returns the start time of a process that is created at this moment.
std::uint64_t ticks_since_boot();

// Returns the pid of the process behind `pidfd`, as numbered in the /proc on which `proc_fd` is open. 0 if unknown.
pid_t pid_of_pidfd(int proc_fd, int pidfd);

// Calls pidfd_open(2). Invalid if the kernel lacks it (before 5.3) or the process has ended.
base::UniqueFd open_pidfd(pid_t pid);
bool send_by_pidfd(int pidfd, int signo);

}  // namespace muster::agent::proc
