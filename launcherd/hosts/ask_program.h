// A question to a program of the host that we run on: squeue, qstat, a user's script. Blocks until it has ended; any
// thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "launcherd/bootstrap/remote_program.h"
#include "launcherd/bootstrap/waiter.h"

namespace muster::launcherd::inline hosts {

// What the program in argv[0], looked for in PATH, has printed; its stdin is empty. `name` begins every error, which
// says how the program ended and what it wrote to stderr: DEADLINE_EXCEEDED or CANCELLED as the waiter says (the
// program and its session's group are ended then), RESOURCE_EXHAUSTED after 1 MiB of output, else UNAVAILABLE.
base::Result<ProgramResult> ask_program(const std::string& name, const std::vector<std::string>& argv,
                                        const Waiter& waiter);

// "; it said: …", or nothing: for errors about an answer.
std::string what_it_said(const ProgramResult& result);

// ask_program() without its time limit, as parts that only read answers take it.
using AskProgram = std::function<base::Result<std::string>(const std::vector<std::string>& argv)>;

}  // namespace muster::launcherd::hosts
