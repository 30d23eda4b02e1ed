// Runs a program of this host and returns its output: squeue, qstat or a user's script.
// Thread: any. The call blocks until the program has ended.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "launcherd/bootstrap/remote_program.h"
#include "launcherd/bootstrap/waiter.h"

namespace muster::launcherd::inline hosts {

// Runs argv[0], which is searched in PATH, with an empty stdin. Returns its output. Processes that it leaves in its
// group are killed. Every error begins with `name`, and contains how the program ended and what it wrote to stderr.
// Errors:
//   DEADLINE_EXCEEDED, CANCELLED  the waiter ended the call; the program and its process group are killed
//   RESOURCE_EXHAUSTED            the program printed more than 1 MiB
//   UNAVAILABLE                   all other failures
base::Result<ProgramResult> ask_program(const std::string& name, const std::vector<std::string>& argv,
                                        const Waiter& waiter);

// Returns "; it printed: …" for errors about an answer. Empty if the program wrote nothing to stderr.
std::string quoted_errors(const ProgramResult& result);

// ask_program() with a fixed time limit, for code that needs only the answer.
using AskProgram = std::function<base::Result<std::string>(const std::vector<std::string>& argv)>;

}  // namespace muster::launcherd::hosts
