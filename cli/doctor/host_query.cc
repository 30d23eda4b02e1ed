#include "cli/doctor/host_query.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "base/descriptor_limit.h"
#include "base/thread.h"
#include "cli/doctor/doctor_report.h"
#include "cli/doctor/probe_hosts.h"
#include "cli/hosts/job_hosts.h"
#include "cli/hosts/site_choice.h"
#include "cli/hosts/standard_streams.h"
#include "cli/hosts/surroundings.h"
#include "cli/view/bootstrap_options.h"
#include "launcherd/start/make_bootstrap.h"

namespace muster::cli::inline doctor {
namespace {

// Threads that the bootstrap needs at its start, and a reserve.
constexpr int kHostQueryThreads = 12;

}  // namespace

NoSigpipe::NoSigpipe() : before_(::signal(SIGPIPE, SIG_IGN)) {}

NoSigpipe::~NoSigpipe() {
  ::signal(SIGPIPE, before_);
}

HostQuery::HostQuery(const std::string& program, bool verbose)
    : terminal(STDERR_FILENO, "stderr"), notices(&terminal, program + ": "), is_verbose(verbose) {}

base::Result<std::unique_ptr<launcherd::Bootstrap>> HostQuery::make_bootstrap(const Reach& reach,
                                                                              const base::Environment& environment,
                                                                              OnFailure on_failure) {
  base::raise_descriptor_limit();  // each host needs at least one descriptor
  MUSTER_RETURN_IF_ERROR(base::check_thread_room(kHostQueryThreads));
  MUSTER_ASSIGN_OR_RETURN(const std::string agent_path, find_agent(environment));
  launcherd::BootstrapOptions bootstrap = bootstrap_options(reach, agent_path, notices, is_verbose);
  MUSTER_ASSIGN_OR_RETURN(const std::string why, settle_bootstrap(bootstrap, environment));
  if (is_verbose && !why.empty()) notices.line(why);
  bootstrap.on_failure = std::move(on_failure);
  return launcherd::make_bootstrap(std::move(bootstrap));
}

void HostQuery::run_blocking() {
  loop.run();
  notices.status("");
  if (!notices.flush_blocking(std::chrono::steady_clock::now() + kFlushTimeout)) terminal.cancel();
}

base::Result<std::vector<model::HostSpec>> hosts_to_ask(JobRequest& request, const base::Environment& environment) {
  if (!request.job.placement.hosts.empty() || !request.hostfile.empty()) {
    MUSTER_RETURN_IF_ERROR(find_hosts(request, environment, logical_working_directory(environment)).status());
  }
  return distinct_hosts(request.job.placement.hosts);
}

base::Result<launcherd::HostCommand::Results> ask_hosts_blocking(const std::string& command_name,
                                                                 const HvdrunOptions& options,
                                                                 const std::vector<model::HostSpec>& hosts,
                                                                 std::vector<std::string> arguments,
                                                                 const base::Environment& environment) {
  HostQuery query(command_name, options.output.verbose);
  std::unique_ptr<launcherd::HostCommand> command;
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<launcherd::Bootstrap> bootstrap,
                          query.make_bootstrap(options.reach, environment, {}));
  launcherd::HostCommand::Results found;
  launcherd::HostCommand::Events events;
  events.on_progress = [&query, total = hosts.size()](const std::vector<std::string>& waiting) {
    query.notices.status(format_waiting(total, waiting));
  };
  events.on_done = [&query, &found](launcherd::HostCommand::Results results) {
    found = std::move(results);
    query.loop.stop();
  };
  command = std::make_unique<launcherd::HostCommand>(query.loop, bootstrap.get(), hosts, std::move(arguments),
                                                     std::move(events));
  command->start();
  query.run_blocking();
  return found;
}

}  // namespace muster::cli::doctor
