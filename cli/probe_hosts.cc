#include "cli/probe_hosts.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <tuple>

#include "base/build_id.h"
#include "base/loop.h"
#include "base/thread.h"
#include "cli/doctor_report.h"
#include "cli/surroundings.h"
#include "launcherd/doctor/host_probes.h"
#include "launcherd/output/terminal.h"
#include "proto/convert.h"

namespace muster::cli {
namespace {

// The bootstrap's first ones, and some to spare.
constexpr int kThreads = 12;
constexpr std::chrono::seconds kLastWords{2};

using Findings = std::vector<launcherd::HostFindings>;

// A host that goes away must not end this process; who reads our own output may, as with other programs.
class NoSigpipe {
 public:
  NoSigpipe() : before_(::signal(SIGPIPE, SIG_IGN)) {}
  ~NoSigpipe() { ::signal(SIGPIPE, before_); }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  void (*before_)(int);
};

// All that lives while hosts are asked.
struct Asking {
  base::Loop loop;
  launcherd::Terminal terminal{STDERR_FILENO, "stderr"};
  launcherd::NoticeWriter notices;
  Findings findings;
  std::unique_ptr<launcherd::HostProbes> probes;
  std::unique_ptr<launcherd::Bootstrap> bootstrap;  // last: its threads call all of the above

  explicit Asking(const std::string& program) : notices(&terminal, program + ": ") {}
};

launcherd::BootstrapOptions bootstrap_options(const HvdrunOptions& options, const std::string& agent_path,
                                              Asking& asking) {
  launcherd::BootstrapOptions bootstrap = options.bootstrap;
  bootstrap.agent_path = agent_path;
  bootstrap.agent_id = base::build_id();
  bootstrap.start_timeout = options.job.start_timeout;
  launcherd::NoticeWriter& notices = asking.notices;
  bootstrap.on_note = [&notices, verbose = options.launch.verbose](const std::string& host, const std::string& line) {
    if (verbose) notices.line(host + ": " + line);
  };
  bootstrap.on_stderr = [&notices](const std::string& host, const std::string& line) {
    notices.line(host + ": " + line);
  };
  bootstrap.on_failure = [&asking](const launcherd::BootstrapTarget& target, launcherd::FailureKind kind) {
    asking.probes->failed(target, kind);
  };
  return bootstrap;
}

}  // namespace

base::Result<Findings> probe_hosts(const HvdrunOptions& options, const std::vector<model::HostSpec>& hosts,
                                   const base::Environment& environment, const ProbeStyle& style) {
  const NoSigpipe no_sigpipe;
  raise_descriptor_limit();
  MUSTER_RETURN_IF_ERROR(base::check_thread_room(kThreads));
  MUSTER_ASSIGN_OR_RETURN(const std::string agent_path, find_agent(environment));
  Asking asking(style.program);
  MUSTER_ASSIGN_OR_RETURN(asking.bootstrap, launcherd::make_bootstrap(bootstrap_options(options, agent_path, asking)));
  launcherd::ProbePlan plan{.hosts = hosts,
                            .job = options.job,
                            .agent_link = options.launch.agent_link,
                            .contain = options.launch.contain,
                            .environment = environment,
                            .shape_only = style.shape_only};
  launcherd::ProbeEvents events;
  events.on_progress = [&asking, total = hosts.size()](const std::vector<std::string>& waiting) {
    asking.notices.status(format_waiting(total, waiting));
  };
  events.on_done = [&asking](Findings findings) {
    asking.findings = std::move(findings);
    asking.loop.stop();
  };
  asking.probes =
      std::make_unique<launcherd::HostProbes>(asking.loop, asking.bootstrap.get(), std::move(plan), std::move(events));
  MUSTER_RETURN_IF_ERROR(asking.probes->start());
  asking.loop.run();
  asking.notices.status("");
  if (!asking.notices.flush_blocking(std::chrono::steady_clock::now() + kLastWords)) asking.terminal.cancel();
  return std::move(asking.findings);
}

std::vector<model::HostSpec> distinct_hosts(const std::vector<model::HostSpec>& hosts) {
  std::vector<model::HostSpec> distinct;
  for (const model::HostSpec& host : hosts) {
    const auto is_same = [&](const model::HostSpec& other) {
      return std::tie(host.name, host.user, host.port) == std::tie(other.name, other.user, other.port);
    };
    if (std::ranges::none_of(distinct, is_same)) distinct.push_back(host);
  }
  if (distinct.empty()) distinct.push_back({.name = "localhost"});
  return distinct;
}

std::vector<base::Result<model::NodeShape>> probe_shapes(const HvdrunOptions& options,
                                                         const std::vector<model::HostSpec>& hosts,
                                                         const base::Environment& environment) {
  const auto findings = probe_hosts(options, hosts, environment, {.program = "hvdrun", .shape_only = true});
  std::vector<base::Result<model::NodeShape>> shapes;
  if (!findings.ok()) return {findings.status()};
  for (const launcherd::HostFindings& each : *findings) {
    if (!each.status.ok()) {
      shapes.push_back(each.status);
    } else if (!each.facts) {
      shapes.push_back(base::error(base::Code::kUnavailable, "host {}: its agent did not say what the host looks like",
                                   each.host.name));
    } else {
      shapes.push_back(proto::node_shape_of(each.facts->hello()));
    }
  }
  return shapes;
}

}  // namespace muster::cli
