// What the warden tells the agent, and how a job is contained: plain values.
#pragma once

#include <sys/types.h>

#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::inline process {

enum class ContainLevel {
  kAuto,    // root: cgroup and PID namespace, what the machine allows of both; else cgroup if delegated; else subreaper
  kCgroup,  // the others: exactly this one, or start() fails with the reason
  kPidns,   // an ordinary user gets a user namespace with it
  kSubreaper,
};

base::Result<ContainLevel> parse_contain_level(std::string_view text);  // "auto", "cgroup", "pidns", "subreaper"

// What is in force. The subreaper and the audit by MUSTER_JOB_ID always are.
struct Containment {
  bool cgroup = false;
  bool pidns = false;
  std::string note;  // why not a better one; empty when it is the best

  std::string name() const;  // "cgroup+pidns", "cgroup", "pidns" or "subreaper"
};

struct RankStarted {
  int rank = 0;
  pid_t pid = 0;
  pid_t pid_inside = 0;      // as the rank sees itself; differs in a PID namespace
  base::UniqueFd stdin_fd;   // invalid: /dev/null; else a pipe's write end or the master of its terminal, non-blocking
  base::UniqueFd stdout_fd;  // a read end, 1 MiB where the kernel allows, or the same master; non-blocking
  base::UniqueFd stderr_fd;  // a read end; invalid with a terminal
  base::MonotonicTime at{};
  base::UniqueFd pmi_fd{};  // of SpawnRequest.wants_pmi, non-blocking; else invalid
};

// It never ran: nothing of it is left, no RankExited follows.
struct RankStartFailed {
  int rank = 0;
  std::string step;  // "workdir", "affinity", "limits", "exec", "process", …
  int errno_value = 0;
  std::string message;  // one sentence without the host's name: "cannot run './x': no such file in /dir"
  int exit_code = 125;  // 127 command not found, 126 found but not executable, 125 the rest
};

struct RankExited {
  int rank = 0;
  pid_t pid = 0;
  pid_t pid_inside = 0;
  int wait_status = 0;  // as waitpid
  // A terminating signal of ours reached it before it ended; of one that SIGKILL has ended: our SIGKILL.
  bool signalled_by_us = false;
  bool oom_killed = false;     // false also when this machine does not tell
  base::MonotonicTime at{};    // when it was reaped
  bool oom_suspected = false;  // a foreign SIGKILL, while the kernel killed somebody here for want of memory
};

struct Leftover {
  pid_t pid = 0;  // as seen by the agent where that is known, else as seen inside the PID namespace
  std::string command;
  std::string why;             // how it was found: "descendant", "cgroup", "pid namespace", "environment"
  bool is_pid_inside = false;  // the number means nothing outside
};

struct Unkillable {
  pid_t pid = 0;
  std::string command;
  char state = '?';
  std::string wchan;  // the kernel function that it waits in; empty when unknown
};

// Nothing of the job is left on this host, but what `stuck` lists.
struct JobEmpty {
  std::vector<Leftover> killed;
  std::vector<Unkillable> stuck;
  // Processes that the kernel killed for want of memory under the job's limit and that were no ranks.
  std::uint32_t oom_others = 0;
};

// The warden killed everything by itself; RankExited for each rank and JobEmpty follow.
struct LeaseExpired {
  base::MonotonicTime at{};
};

using WardenEvent = std::variant<RankStarted, RankStartFailed, RankExited, JobEmpty, LeaseExpired>;

}  // namespace muster::agent::process
