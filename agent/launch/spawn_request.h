// What the agent asks the warden to start: one rank with everything decided, nothing left to look up. A plain value.
#pragma once

#include <sys/resource.h>

#include <string>
#include <vector>

namespace muster::agent::inline launch {

// As setrlimit takes it; see launch/limits.h for the defaults and for --ulimit.
struct RlimitSetting {
  int resource = 0;  // RLIMIT_*
  rlim_t soft = RLIM_INFINITY;
  rlim_t hard = RLIM_INFINITY;

  bool operator==(const RlimitSetting&) const = default;
};

enum class StdinOf : int {
  kNull,      // /dev/null
  kPipe,      // RankStarted has its write end
  kTerminal,  // a pseudo-terminal of its own, as stdout and stderr
};

// Where a rank finds its end: above what scripts use by number. It must be below the limit of descriptors.
inline constexpr int kPmiDescriptor = 99;

struct SpawnRequest {
  int rank = 0;
  std::vector<std::string> argv;  // argv[0] without a slash is searched in the PATH of `env`
  std::vector<std::string> env;   // complete, NAME=VALUE; the warden sets MUSTER_JOB_ID itself
  std::string workdir;            // absolute; empty: the agent's
  std::vector<int> cpus;          // logical CPU numbers; empty: untouched
  unsigned umask = 022;
  std::vector<RlimitSetting> limits;  // over the agent's own
  StdinOf stdin_of = StdinOf::kNull;
  unsigned short rows = 24;  // of kTerminal
  unsigned short columns = 80;
  bool wants_pmi = false;  // a socket to the agent as descriptor kPmiDescriptor; RankStarted has the other end
};

}  // namespace muster::agent::launch
