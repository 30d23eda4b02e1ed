// Finds the core that the kernel has written of a crashed rank, or the reason why there is none.
// Thread: any. It reads a folder only if the kernel has just written a core, so the folder's file system answers.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace muster::agent::inline process {

struct CoreQuery {
  int signal = 0;
  bool was_dumped = false;  // WCOREDUMP of the wait status
  pid_t pid = 0;            // as the agent sees it
  pid_t pid_inside = 0;     // as the rank sees itself
  std::string workdir;      // the rank's working directory
  std::uint64_t limit = 0;  // the rank's limit of core files, in bytes
};

// The kernel's settings.
struct CoreSettings {
  std::string pattern;       // kernel.core_pattern
  bool appends_pid = false;  // kernel.core_uses_pid
};

struct CoreFinding {
  std::string file;  // absolute path; empty if it was not found
  std::string note;  // if `file` is empty: which program has the core, or why there is none; one phrase
};

// True for signals at which the kernel writes a core: SIGSEGV, SIGABRT, …
bool may_leave_core(int signal);

// Reads the settings of this host. Both are empty if they cannot be read.
CoreSettings read_core_settings();

CoreFinding find_core(const CoreQuery& query, const CoreSettings& settings);

// Returns the path that the kernel makes of `pattern`, as a pattern of fnmatch(3): what is not known is a "*".
// Relative paths begin at the working directory of the query.
std::string core_path_pattern(const CoreQuery& query, const CoreSettings& settings);

}  // namespace muster::agent::process
