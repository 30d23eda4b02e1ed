// Launch step: finds the rank's program, and says in one sentence why it could not be run.
//
// The search uses the PATH of the rank's own environment and follows execvp(3). Relative paths are relative to the
// rank's working directory, because the child enters that directory before it tries them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/launch/spawn_request.h"
#include "model/exit_code.h"

namespace muster::agent::inline launch {

// Returns the paths to try with execve, in order. If the name contains a slash, it is the only path.
std::vector<std::string> program_candidates(std::string_view name, const std::vector<std::string>& env);

struct ExecFailure {
  int exit_code = model::kNotExecutable;  // kNotFound if there is no such file
  std::string message;                    // "cannot run './x': no such file in /dir"
};

// `path` is the candidate that failed with `errno_value`.
ExecFailure explain_exec_failure(const SpawnRequest& request, const std::string& path, int errno_value);

// Call it after ENOEXEC. True for a text file without a "#!" line, which execvp(3) and every shell pass to /bin/sh.
// False for a *.py file.
bool is_shell_text(const SpawnRequest& request, const std::string& path);

}  // namespace muster::agent::launch
