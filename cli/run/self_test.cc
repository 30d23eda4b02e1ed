#include "cli/run/self_test.h"

#include <utility>

#include "cli/hosts/standard_streams.h"
#include "cli/hosts/surroundings.h"
#include "cli/options/exit_codes.h"
#include "cli/run/run_job.h"

namespace muster::cli::inline run {

HvdrunOptions self_test_options(const HvdrunOptions& tested, const model::Placement& placement,
                                const std::string& directory) {
  const model::JobSpec& job = tested.request.job;
  HvdrunOptions options{.request = {}, .reach = tested.reach, .output = {}, .dry_run = {}};
  options.output.verbose = tested.output.verbose;
  options.output.quiet = true;
  model::JobSpec& test = options.request.job;
  test.command = {directory + "/muster_perf", "--self-test"};
  for (const model::PlacedHost& placed : placement.hosts) {
    test.placement.hosts.push_back(placed.host);
    test.placement.hosts.back().slots = 1;
  }
  test.placement.ranks_per_node = 1;
  test.input = {.to = model::InputTo::kNone};
  test.output.hidden = {.of_others = model::kStdout | model::kStderr};
  test.environment = job.environment;
  test.workdir = job.workdir;
  test.network_interfaces = job.network_interfaces;
  test.network = job.network;
  test.pinning = job.pinning;
  test.container = job.container;
  test.limits = job.limits;
  test.start_timeout = job.start_timeout;
  test.timeout = job.timeout;
  test.kill_grace = job.kill_grace;
  return options;
}

int run_self_test(const HvdrunOptions& tested, const model::Placement& placement,
                  const base::Environment& environment) {
  const auto directory = program_directory();
  if (!directory.ok()) return fail_as("hvdrun", kMusterFailed, directory.status().message());
  const int code = run_job(self_test_options(tested, placement, *directory), environment);
  if (code == 0 || code > 128) return code;  // above 128: the user ended it by a signal
  return fail_as("hvdrun", kMusterFailed, "--health-check full: the self-test failed, and the job was not started");
}

}  // namespace muster::cli::run
