// The agent programs that launchers have stored on this host, one for each build:
// ~/.cache/muster/agent-<build>-<machine>.
//
// The folder may be on a disk of several hosts. An agent cannot see whether another host runs a file, so each agent
// marks its file as used, by its modification time, at its start and then each hour.
// Calls block for as long as the file system does.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace muster::agent::inline proc {

inline constexpr std::chrono::hours kAgentFileMarkPeriod{1};

// Sets the modification time of this program's file, if it is a stored agent. If that fails, nothing happens: on a disk
// that cannot be written, no one can remove the file either.
void mark_agent_file_used();

struct AgentFile {
  std::string path;
  std::int64_t size = 0;         // bytes
  std::chrono::seconds idle{0};  // since its modification time
  bool is_used = false;          // a process of this host has it as its program, or it was marked within two periods
  bool is_own = false;           // an agent of this program's build
};

// Returns the folder of this program if it is a stored agent, else ~/.cache/muster. Empty if there is no home.
std::string agent_folder();

// Returns our files in `folder` that are agents or parts of agents that were being sent. The longest idle come first.
// Other files are left out: a name must be exact, and the file a program or empty. `own_build` is this program's build.
// NOT_FOUND: there is no such folder.
base::Result<std::vector<AgentFile>> find_agent_files(const std::string& folder, std::string_view own_build,
                                                      base::WallTime now);

// Removes the file if it is still as `file` says. FAILED_PRECONDITION: it has been used meanwhile.
base::Status remove_agent_file(const AgentFile& file, base::WallTime now);

}  // namespace muster::agent::proc
