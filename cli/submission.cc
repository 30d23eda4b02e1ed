#include "cli/submission.h"

#include "cli/job_hosts.h"
#include "cli/surroundings.h"
#include "proto/convert.h"
#include "proto/job_spec_convert.h"

namespace muster::cli {

base::Status check_for_launcherd(HvdrunOptions& options) {
  const model::JobInput& input = options.job.input;
  if (input.pty || (input.to != model::InputTo::kNone && input.to != model::InputTo::kAuto)) {
    return base::error(base::Code::kInvalidArgument,
                       "{}: ranks of launcherd's jobs have no input; run without --launcher",
                       input.pty ? "--pty" : "--stdin");
  }
  if (options.elastic.min_ranks || options.elastic.max_ranks) {
    return {base::Code::kInvalidArgument, "--min-np and --max-np: launcherd's jobs have a fixed size; say -np"};
  }
  const launcherd::BootstrapOptions defaults;
  const launcherd::BootstrapOptions& wanted = options.bootstrap;
  if (wanted.backend != defaults.backend || wanted.identity_file != defaults.identity_file ||
      wanted.default_port != defaults.default_port || wanted.agent_dir != defaults.agent_dir ||
      options.launch.agent_link != launcherd::LaunchOptions().agent_link) {
    options.notes.emplace_back(
        "launcherd reaches its hosts as it was told itself: options about ssh and agents are left out");
  }
  return base::ok_status();
}

base::Result<v1::SubmitRequest> make_submission(HvdrunOptions& options, const base::Environment& environment,
                                                const std::string& directory) {
  model::JobSpec& job = options.job;
  job.workdir = job.workdir.empty() ? directory : absolute_path(job.workdir, directory);
  job.umask = current_umask();
  // Without a list launcherd chooses; what this shell was allocated is not its.
  if (!options.hostfile.empty() || !options.elastic.discovery_script.empty()) {
    MUSTER_RETURN_IF_ERROR(choose_hosts(options, environment, directory).status());
  }
  v1::SubmitRequest request;
  *request.mutable_spec() = proto::to_proto(job);
  request.mutable_spec()->clear_lease();  // hvdrun's own is short: its ranks end with it
  request.mutable_spec()->set_contain(options.launch.contain);
  proto::set_environment(model::exported_variables(environment, job.environment, false),
                         *request.mutable_environment());
  return request;
}

}  // namespace muster::cli
