// The agent's request to the warden to start one rank. Everything is decided, and nothing is left to look up. A plain
// value.
#pragma once

#include <sys/resource.h>

#include <string>
#include <vector>

namespace muster::agent::inline launch {

// One limit, in the form that setrlimit takes. launch/limits.h has the defaults and --ulimit.
struct RlimitSetting {
  int resource = 0;  // RLIMIT_*
  rlim_t soft = RLIM_INFINITY;
  rlim_t hard = RLIM_INFINITY;

  bool operator==(const RlimitSetting&) const = default;
};

enum class StdinOf : int {
  kNull,      // /dev/null
  kPipe,      // RankStarted has the pipe's write end
  kTerminal,  // a pseudo-terminal of the rank's own, also as stdout and stderr
};

// The number of the rank's PMI descriptor. It is higher than those that scripts use by number. It must be below the
// limit of descriptors.
inline constexpr int kPmiDescriptor = 99;

// Commands that run beside a rank (muster exec) have numbers from here on, so that they differ from ranks.
inline constexpr int kFirstCommand = 1 << 30;
inline bool is_command(int number) {
  return number >= kFirstCommand;
}

struct SpawnRequest {
  int rank = 0;                   // or the number of a command
  std::vector<std::string> argv;  // if argv[0] has no slash, it is searched in the PATH of `env`
  std::vector<std::string> env;   // all NAME=VALUE entries; the warden sets MUSTER_JOB_ID itself
  std::string workdir;            // absolute; empty means the agent's
  std::vector<int> cpus;          // logical CPU numbers; empty means that the affinity stays
  unsigned umask = 022;
  std::vector<RlimitSetting> limits;  // replace the agent's own limits
  StdinOf stdin_of = StdinOf::kNull;
  unsigned short rows = 24;  // `rows` and `columns` are the size of a kTerminal
  unsigned short columns = 80;
  // The rank gets a socket to the agent as descriptor kPmiDescriptor. RankStarted has the other end.
  bool wants_pmi = false;
};

}  // namespace muster::agent::launch
