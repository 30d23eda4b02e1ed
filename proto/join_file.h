// Writes and reads the join file, by which an agent finds its launcher. An agent needs it if the site's own launcher
// starts it (srun, aprun, mpiexec …): such a start has no stdin for each host, and everybody can read a command line.
// The file is text. Its first line names the format; each other line is `key value`.
//
// Thread: any; pure, no I/O. Fuzzed.
// Secrets: the file is for its owner only (0600) and worthless after it has expired (docs/adr/0017). A reader of the
// file can enrol as any host of its wave, or pose as the launcher to an agent with the same file.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/net.h"
#include "base/status.h"

namespace muster::proto {

inline constexpr std::size_t kMaxJoinFile = 16 * 1024;

struct JoinFile {
  std::vector<base::IpAddress> addresses;  // addresses of the launcher, best first; 1 to 16
  std::uint16_t port = 0;
  std::string identity;      // the name of the key; public
  std::string token;         // the key; secret; 64 lower-case hexadecimal digits
  base::WallTime expires{};  // whole seconds
  bool stays = false;        // written by a launcherd: the agent connects again after launcherd has ended
  // The user's HOME, USER, LOGNAME, SHELL and PATH on the launcher's host, for agents that start without them.
  std::vector<std::pair<std::string, std::string>> variables;
};

std::string format_join_file(const JoinFile& file);
// INVALID_ARGUMENT if format_join_file() could not have written `text`. The message names the line, never its value.
base::Result<JoinFile> parse_join_file(std::string_view text);

// Returns whether `name` is one of the variables that a join file may hold.
bool is_join_variable(std::string_view name);

}  // namespace muster::proto
