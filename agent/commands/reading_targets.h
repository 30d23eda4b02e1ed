// The arguments of the commands that read other processes (stack_report.h, look_report.h): which ranks, and memories
// that the agent has opened for them.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::inline commands {

struct ReadingTargets {
  std::vector<std::pair<int, pid_t>> ranks;  // rank and pid, in the order of the arguments
  std::map<pid_t, base::UniqueFd> memories;  // open /proc/PID/mem, by pid
  bool is_native = false;                    // --native was among the arguments
  bool asks_libraries = false;               // --libraries was
  bool asks_nccl = false;                    // --nccl was
  std::string session_dir{};                 // from --session=DIR; empty if it was not among them

  // Returns the memory of the process, which the caller then owns. Invalid if it is not open.
  base::UniqueFd take_memory(pid_t pid);
};

// Parses [--native] [--libraries] [--nccl] [--session=DIR] [--memory=PID:FD]… RANK:PID…. Owns the descriptors from then
// on.
base::Result<ReadingTargets> parse_reading_targets(const std::vector<std::string>& arguments);

}  // namespace muster::agent::commands
