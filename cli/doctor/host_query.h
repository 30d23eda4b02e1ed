// The common part of commands that ask hosts: a loop, lines on stderr, and a bootstrap that reports to both.
// Owner: declare the bootstrap last, so that its threads end before the objects that they call.
// Example:
//
//   HostQuery query("muster doctor", is_verbose);
//   MUSTER_ASSIGN_OR_RETURN(const auto bootstrap, query.make_bootstrap(options.reach, environment, {}));
//   …start what calls query.loop.stop() at its end; then
//   query.run_blocking();
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/loop.h"
#include "base/status.h"
#include "cli/options/options.h"
#include "cli/options/reach.h"
#include "launcherd/bootstrap/bootstrap.h"
#include "launcherd/cleanup/host_command.h"
#include "launcherd/output/terminal.h"
#include "model/host_spec.h"

namespace muster::cli::inline doctor {

// Ignores SIGPIPE while this object exists, so that a host that disconnects does not end the process. Afterwards
// SIGPIPE ends the process if the reader of its output has gone, as with other programs.
class NoSigpipe {
 public:
  NoSigpipe();
  ~NoSigpipe();
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  void (*before_)(int);
};

struct HostQuery {
  using OnFailure = std::function<void(const launcherd::BootstrapTarget&, launcherd::FailureKind)>;

  // `program` stands before each line on stderr. `verbose` is --verbose.
  HostQuery(const std::string& program, bool verbose);

  // Makes a bootstrap that borrows `notices`. `on_failure` is as in BootstrapOptions. The error means that this machine
  // can ask no host: its agent program is missing, or it has no thread left.
  base::Result<std::unique_ptr<launcherd::Bootstrap>> make_bootstrap(const Reach& reach,
                                                                     const base::Environment& environment,
                                                                     OnFailure on_failure);

  // Runs until the loop is stopped. Then it writes the last lines and removes the status line.
  void run_blocking();

  NoSigpipe no_sigpipe;
  base::Loop loop;
  launcherd::Terminal terminal;
  launcherd::NoticeWriter notices;
  bool is_verbose;
};

// Returns the hosts that the user names, each once. Without any, this host, even within a scheduler's allocation.
base::Result<std::vector<model::HostSpec>> hosts_to_ask(JobRequest& request, const base::Environment& environment);

// Runs a command of the agent on all hosts, with a status line that names those that have not answered. `command_name`
// is "muster cleanup".
base::Result<launcherd::HostCommand::Results> ask_hosts_blocking(const std::string& command_name,
                                                                 const HvdrunOptions& options,
                                                                 const std::vector<model::HostSpec>& hosts,
                                                                 std::vector<std::string> arguments,
                                                                 const base::Environment& environment);

}  // namespace muster::cli::doctor
