// The file by which an agent finds its launcher where the site's own launcher starts it (srun, aprun, mpiexec …): such
// a start has no stdin of its own for each host, and a command line is read by everybody. Text, one `key value` a line,
// after a first line that names the format. Pure, no I/O; fuzzed.
//
// Who can read it can enrol as any host of its wave, and be taken for the launcher by an agent that reads it: it is for
// its owner only (0600), and worthless once it has expired (docs/adr/0017).
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
  std::vector<base::IpAddress> addresses;  // of the launcher, best first; 1 to 16
  std::uint16_t port = 0;
  std::string identity;      // of the key: public
  std::string token;         // the key: secret; 64 lower-case hexadecimal digits
  base::WallTime expires{};  // whole seconds
  bool stays = false;        // of a launcherd: the agent comes again when it has ended, or launcherd has
  // Variables that the user has where the launcher runs, for agents that get none: HOME, USER, LOGNAME, SHELL, PATH.
  std::vector<std::pair<std::string, std::string>> variables;
};

std::string format_join_file(const JoinFile& file);
// INVALID_ARGUMENT: not what format_join_file() writes; the message names the line, never its value.
base::Result<JoinFile> parse_join_file(std::string_view text);

// Of the user's variables, those that travel.
bool is_join_variable(std::string_view name);

}  // namespace muster::proto
