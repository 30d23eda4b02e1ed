// The events that the warden reports to the agent, and how a job is contained. Plain values.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "model/exit_code.h"

namespace muster::agent::inline process {

enum class ContainLevel {
  // Root gets a cgroup and a PID namespace, as far as the machine allows them. Other users get a cgroup if one is
  // delegated to them, and otherwise only the subreaper.
  kAuto,
  // This level and the next ones request exactly that level. If it is impossible, start() fails with the reason.
  kCgroup,
  kPidns,  // an ordinary user gets a user namespace with it
  kSubreaper,
};

base::Result<ContainLevel> parse_contain_level(std::string_view text);  // "auto", "cgroup", "pidns", "subreaper"

// The containment in force. The subreaper and the audit by MUSTER_JOB_ID are always in force.
struct Containment {
  bool cgroup = false;
  bool pidns = false;
  std::string note;  // why there is no better one; empty if it is the best

  std::string name() const;  // "cgroup+pidns", "cgroup", "pidns" or "subreaper"
};

struct RankStarted {
  int rank = 0;
  pid_t pid = 0;
  pid_t pid_inside = 0;  // as the rank sees itself; differs from pid in a PID namespace
  // Non-blocking: the write end of a pipe, or the master of the rank's terminal. Invalid means that the rank has
  // /dev/null.
  base::UniqueFd stdin_fd;
  // Non-blocking: a read end with 1 MiB if the kernel allows it, or the master of the rank's terminal.
  base::UniqueFd stdout_fd;
  base::UniqueFd stderr_fd;  // a read end; invalid if the rank has a terminal
  base::MonotonicTime at{};
  // Non-blocking. Valid only if SpawnRequest.wants_pmi was set.
  base::UniqueFd pmi_fd{};
};

// The rank never ran. Nothing of it is left, and no RankExited follows.
struct RankStartFailed {
  int rank = 0;
  std::string step;  // "workdir", "affinity", "limits", "exec", "process", …
  int errno_value = 0;
  std::string message;  // one sentence without the host's name: "cannot run './x': no such file in /dir"
  int exit_code = model::kMusterFailed;  // or kNotFound, kNotExecutable
};

// The warden's facts about a rank that failed. Empty for other ranks.
struct ExitFacts {
  std::uint64_t peak_kib = 0;                // most memory that the rank or a child that it reaped had resident
  std::optional<std::uint64_t> free_kib;     // memory that was free just after the end
  std::string program;                       // absolute path
  std::string workdir;                       // in which the rank began; absolute
  std::uint64_t core_limit = RLIM_INFINITY;  // with which the rank began
  std::string kernel_line;  // the kernel's line about the end, without its time; empty if there is none
};

struct RankExited {
  int rank = 0;
  pid_t pid = 0;
  pid_t pid_inside = 0;
  int wait_status = 0;  // as waitpid returns it
  // True if we sent a terminating signal before the rank ended. For a rank that ended by SIGKILL: true if we sent
  // that SIGKILL.
  bool signalled_by_us = false;
  bool oom_killed = false;   // false also if this machine does not report it
  base::MonotonicTime at{};  // when it was reaped
  // The rank ended by a foreign SIGKILL, while the kernel killed some process here because memory ran out.
  bool oom_suspected = false;
  ExitFacts facts{};
};

struct Leftover {
  // The process's pid as the agent sees it, if that is known. Otherwise its pid inside the PID namespace.
  pid_t pid = 0;
  std::string command;
  std::string why;             // how it was found: "descendant", "cgroup", "pid namespace" or "environment"
  bool is_pid_inside = false;  // the pid means nothing outside the PID namespace
};

struct Unkillable {
  pid_t pid = 0;
  std::string command;
  char state = '?';
  std::string wchan;  // the kernel function in which it waits; empty if unknown
};

// Nothing of the job is left on this host, except what `stuck` lists.
struct JobEmpty {
  std::vector<Leftover> killed;
  std::vector<Unkillable> stuck;
  // Number of processes that were no ranks and that the kernel killed because memory ran out under the job's limit.
  std::uint32_t oom_others = 0;
};

// The lease expired, and the warden killed everything by itself. RankExited for each rank and JobEmpty follow.
struct LeaseExpired {
  base::MonotonicTime at{};
};

using WardenEvent = std::variant<RankStarted, RankStartFailed, RankExited, JobEmpty, LeaseExpired>;

}  // namespace muster::agent::process
