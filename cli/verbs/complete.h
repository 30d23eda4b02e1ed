// The hidden verb __complete of hvdrun, muster and launcherd: answers a shell at a TAB (cli/help/completion.h).
// Thread: blocks, at most about 300 ms for launchers.
// Errors: none. It prints nothing on stderr, because the user's line is there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "cli/help/completion.h"

namespace muster::cli::inline verbs {

// Prints what fits the last of `words`, which follow __complete. Returns the exit code.
int run_complete(const CompletedProgram& program, const std::vector<std::string>& words);

// Returns the exit code if the program was called as PROGRAM __complete WORD..., else nullopt.
std::optional<int> answer_shell(const CompletedProgram& program, const std::vector<std::string>& arguments);

// Returns the answer to a shell. Asks launchers.
std::string completion_answer(const CompletedProgram& program, const std::vector<std::string>& words,
                              const base::Environment& environment);

}  // namespace muster::cli::verbs
