// How an agent that a site's own launcher has started (srun, aprun, mpiexec …) comes to its stdin and stdout: by the
// join file it finds the launcher, proves that it may, and says which host this is. From there the connection is what
// an ssh log-in's streams are, so the rest of the agent does not know the difference.
//
// Before any thread exists: a process of its own carries the connection's bytes.
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
  std::string host;      // the name that the launcher has for this host; empty: what this host says of itself
  int slots = 0;         // of this host, for a launcherd that it comes to by itself; 0: its GPUs, else its CPUs
  std::string instance;  // of this program, each time that it enrols; set by parse_enrol_arguments()
};

// `--join FILE [--host NAME] [--slots N]`. INVALID_ARGUMENT: something else.
base::Result<EnrolOptions> parse_enrol_arguments(const std::vector<std::string>& arguments);

// The names by which the launcher may know this host, the most certain first. `variables` as getenv.
std::vector<std::string> host_names(const std::string& given, const std::string& hostname,
                                    const std::function<const char*(const char*)>& variables);

// Reads and checks the file, sets those of the user's variables that are missing here, drops what the site's launcher
// says of its own task, and enrols. The connection is the agent's from here on. The error is one sentence.
base::Result<base::TlsStream> enrol(const EnrolOptions& options);

// Whether the launcher of that file wants the agent again when it has ended.
bool wants_to_stay(const EnrolOptions& options);

// Enrols and serves again and again, each time in a child process, until no launcher was there for `patience`, or one
// has refused us for good; the exit status.
int serve_always(const EnrolOptions& options, const std::function<int()>& serve,
                 std::chrono::milliseconds patience = std::chrono::minutes(10));

// Calls `serve` in a child process whose stdin and stdout are the connection, which this process carries until both
// have ended; the exit status of the child. In the child: what `serve` returned.
int serve_behind(base::TlsStream connection, const std::function<int()>& serve);

}  // namespace muster::agent::link
