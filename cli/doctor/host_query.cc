#include "cli/doctor/host_query.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "base/descriptor_limit.h"
#include "base/thread.h"
#include "cli/hosts/site_choice.h"
#include "cli/hosts/standard_streams.h"
#include "cli/hosts/surroundings.h"
#include "cli/view/bootstrap_options.h"
#include "launcherd/start/make_bootstrap.h"

namespace muster::cli::inline doctor {
namespace {

// Threads that the bootstrap needs at its start, and a reserve.
constexpr int kAskingThreads = 12;

}  // namespace

NoSigpipe::NoSigpipe() : before_(::signal(SIGPIPE, SIG_IGN)) {}

NoSigpipe::~NoSigpipe() {
  ::signal(SIGPIPE, before_);
}

HostQuery::HostQuery(const std::string& program)
    : terminal(STDERR_FILENO, "stderr"), notices(&terminal, program + ": ") {}

base::Result<std::unique_ptr<launcherd::Bootstrap>> HostQuery::make_bootstrap(const HvdrunOptions& options,
                                                                              const base::Environment& environment,
                                                                              OnFailure on_failure) {
  base::raise_descriptor_limit();  // each host needs at least one descriptor
  MUSTER_RETURN_IF_ERROR(base::check_thread_room(kAskingThreads));
  MUSTER_ASSIGN_OR_RETURN(const std::string agent_path, find_agent(environment));
  HvdrunOptions settled = options;
  MUSTER_ASSIGN_OR_RETURN(const std::string why, settle_bootstrap(settled, environment));
  if (options.launch.verbose && !why.empty()) notices.line(why);
  launcherd::BootstrapOptions bootstrap = bootstrap_options(settled, agent_path, notices);
  bootstrap.start_timeout = options.job.start_timeout;
  bootstrap.on_failure = std::move(on_failure);
  return launcherd::make_bootstrap(std::move(bootstrap));
}

void HostQuery::run_blocking() {
  loop.run();
  notices.status("");
  if (!notices.flush_blocking(std::chrono::steady_clock::now() + kLastWords)) terminal.cancel();
}

}  // namespace muster::cli::doctor
