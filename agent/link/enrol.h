// Connects an agent that a site's own launcher has started (srun, aprun, mpiexec …) to Muster's launcher. The join
// file tells the agent where the launcher is, and proves that the agent may enrol. The agent sends the host's names.
// The connection then becomes the agent's stdin and stdout, as after a log-in by ssh. So the rest of the agent sees no
// difference.
//
// Thread: call it before any thread exists. A separate process carries the connection's bytes.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/tls.h"

namespace muster::agent::inline link {

struct EnrolOptions {
  std::string join_file;
  // The launcher's name for this host. Empty means that this host's own name is used.
  std::string host;
  // Slots of this host, if it joins a launcherd by itself. 0 means as many as it has GPUs, or else CPUs.
  int slots = 0;
  // Identifies this start of the program in each of its enrolments. parse_enrol_arguments() sets it.
  std::string instance;
};

// Parses `--join FILE [--host NAME] [--slots N]`. INVALID_ARGUMENT: the arguments are something else.
base::Result<EnrolOptions> parse_enrol_arguments(const std::vector<std::string>& arguments);

// Returns the names by which the launcher may know this host, the most certain first. `variables` works like getenv.
std::vector<std::string> host_names(const std::string& given, const std::string& hostname,
                                    const std::function<const char*(const char*)>& variables);

// Enrols this process as an agent. Reads and checks the join file, and sets those of the user's variables that are
// missing here. Drops the variables that the site's launcher set for its own task.
// The caller owns the returned connection. The error is one sentence.
base::Result<base::TlsStream> enrol(const EnrolOptions& options);

// True if the join file asks the agent to enrol again each time that it has ended.
bool wants_to_stay(const EnrolOptions& options);

// Enrols and serves again and again, each time in a child process. Ends when no launcher has answered for `patience`,
// or when a launcher has refused this agent for good. Returns the exit status.
int serve_always(const EnrolOptions& options, const std::function<int()>& serve,
                 std::chrono::milliseconds patience = std::chrono::minutes(10));

// Calls `serve` in a child process that has the connection as stdin and stdout. This process carries the connection's
// bytes until both sides have ended. Returns the child's exit status; in the child, returns the result of `serve`.
int serve_behind(base::TlsStream connection, const std::function<int()>& serve);

}  // namespace muster::agent::link
