#include "cli/verbs/submission.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/ids.h"
#include "cli/hosts/env_file.h"
#include "cli/hosts/job_hosts.h"
#include "cli/hosts/stage_env.h"
#include "cli/hosts/surroundings.h"
#include "cli/options/dmlc_job.h"
#include "cli/verbs/field_words.h"
#include "cli/verbs/found_jobs.h"
#include "cli/verbs/submit.h"
#include "model/job_placement.h"
#include "proto/convert.h"
#include "proto/job_spec_convert.h"

namespace muster::cli::inline verbs {
namespace {

constexpr std::size_t kRequestIdBytes = 16;

}  // namespace

base::Status check_for_launcherd(const JobRequest& request, const Reach& reach, OutputPlan& output) {
  const model::JobInput& input = request.job.input;
  if (input.pty || (input.to != model::InputTo::kNone && input.to != model::InputTo::kAuto)) {
    return base::invalid_argument("{}: ranks of launcherd's jobs have no input; run without --launcher",
                                  input.pty ? "--pty" : "--stdin");
  }
  const bool is_sized = request.elastic.min_ranks || request.elastic.max_ranks;
  // hvdrun's remark about --max-np is about live jobs.
  if (is_sized) std::erase_if(output.notes, [](const std::string& note) { return note.starts_with("--max-n"); });
  if (request.health_check != HealthCheck::kOff || !request.job.failure.spares.empty()) {
    return {
        base::Code::kInvalidArgument,
        "--spares and --health-check: every free host of launcherd is a spare, and launcherd knows how its hosts are "
        "by itself; leave them out, or run without --launcher"};
  }
  if (request.job.live && !request.elastic.discovery_script.empty()) {
    return {base::Code::kInvalidArgument,
            "--host-discovery-script: launcherd's queue gives the hosts; leave it out and see --elastic-policy and "
            "muster resize, or run without --launcher"};
  }
  if (request.host_numbers && request.hostfile.empty() && request.job.placement.hosts.empty()) {
    return base::invalid_argument("{} counts the hosts of a list: name them by -H or --hostfile",
                                  request.host_numbers->label);
  }
  if (!output.tensorboard_dir.empty()) {
    return {base::Code::kInvalidArgument,
            "--tensorboard: launcherd keeps what is measured of its jobs; write it while the job runs by muster report "
            "JOB --tensorboard DIR, or run without --launcher"};
  }
  if (!request.job.stages.empty()) {
    output.notes.emplace_back("--stage: the files are taken from launcherd's machine, under the same path");
  }
  if (!request.job.stage_env.empty()) {
    output.notes.emplace_back("--stage-env: the environment is taken from launcherd's machine, under the same path");
  }
  if (request.job.log_layout == model::LogLayout::kTorchrun) {
    return {base::Code::kInvalidArgument,
            "--log-layout torchrun: launcherd's jobs do not write these files; leave it out, or run without "
            "--launcher"};
  }
  if (!request.job.log_dir.empty()) {
    output.notes.emplace_back("--log-dir: error.json of ranks that fail is not copied from hosts of launcherd's jobs");
  }
  if (output.reports_bindings) {
    output.notes.emplace_back("--report-bindings: muster status JOB shows what the ranks of launcherd's jobs have");
  }
  const launcherd::BootstrapOptions defaults;
  const launcherd::BootstrapOptions& wanted = reach.bootstrap;
  if (wanted.backend != defaults.backend || wanted.identity_file != defaults.identity_file ||
      wanted.default_port != defaults.default_port || wanted.agent_dir != defaults.agent_dir ||
      (wanted.by != launcherd::BootstrapBy::kAuto && wanted.by != defaults.by) ||
      reach.agent_link != Reach().agent_link || reach.fanout != Reach().fanout) {
    output.notes.emplace_back(
        "launcherd reaches its hosts with its own options; options about ssh and agents are ignored");
  }
  return base::ok_status();
}

namespace {

// Without -np and hosts, a job whose ranks live on starts with --min-np.
base::Status settle_live_size(const model::ElasticSpec& live, model::PlacementRequest& placement) {
  if (placement.np == 0 && placement.hosts.empty()) placement.np = live.min_ranks;
  if (placement.np > 0 && (placement.np < live.min_ranks || placement.np > live.max_ranks.value_or(placement.np))) {
    return base::invalid_argument("-np {} is not between --min-np and --max-np", placement.np);
  }
  return base::ok_status();
}

// Decides the number of ranks at the start of a job whose size may change. Without -np, torchrun's hosts decide it,
// then --min-np.
base::Status settle_size(JobRequest& request) {
  model::JobSpec& job = request.job;
  model::PlacementRequest& placement = job.placement;
  const model::FailurePolicy& policy = job.failure;
  if (!policy.spares.empty()) {
    return {base::Code::kInvalidArgument,
            "--spares: every free host of launcherd is a spare; say --on-failure replace"};
  }
  if (job.min_hosts > 0) {
    return {base::Code::kInvalidArgument,
            "--min-hosts: launcherd's queue gives a job its hosts, and another one for a host that does not start; say "
            "--on-failure shrink --min-np N, or run hvdrun without --launcher"};
  }
  if (job.live) return settle_live_size(*job.live, placement);
  if (!model::may_change_hosts(policy)) {
    if (!request.elastic.max_ranks) return base::ok_status();
    return {base::Code::kInvalidArgument, "--max-np: only a job with --min-np changes its size; add --min-np"};
  }
  if (request.nodes && placement.np == 0 && placement.hosts.empty()) {
    placement.np = request.nodes->max * std::max(placement.ranks_per_node, 1);
  }
  const bool is_sized = request.elastic.min_ranks || request.elastic.max_ranks;
  if (is_sized && placement.np == 0 && placement.hosts.empty()) placement.np = policy.min_ranks;
  if (placement.np > 0 && (placement.np < policy.min_ranks || placement.np > policy.max_ranks.value_or(placement.np))) {
    return base::invalid_argument("-np {} is not between --min-np and --max-np", placement.np);
  }
  return base::ok_status();
}

v1::ElasticPolicy elastic_policy_of(const JobRequest& request) {
  if (!request.elastic_policy) return v1::ELASTIC_POLICY_UNSPECIFIED;
  switch (*request.elastic_policy) {
    case model::ElasticPolicy::kFixed:
      return v1::ELASTIC_POLICY_FIXED;
    case model::ElasticPolicy::kGiveBack:
      return v1::ELASTIC_POLICY_GIVE_BACK;
    case model::ElasticPolicy::kGrow:
      return v1::ELASTIC_POLICY_GROW;
    case model::ElasticPolicy::kBoth:
      return v1::ELASTIC_POLICY_BOTH;
  }
  return v1::ELASTIC_POLICY_UNSPECIFIED;
}

// Programs with hosts of their own are placed here, because launcherd spreads all ranks of a job alike.
base::Status settle_places(model::JobSpec& job) {
  const bool names_hosts = !job.places.empty() ||
                           std::ranges::any_of(job.roles, [](const model::Role& role) { return !role.hosts.empty(); });
  if (!names_hosts) return base::ok_status();
  MUSTER_ASSIGN_OR_RETURN(const model::Placement placement, model::place(job));
  job.places = model::places_of(placement);
  job.placement.hosts.clear();
  for (const model::PlacedHost& placed : placement.hosts) job.placement.hosts.push_back(placed.host);
  return base::ok_status();
}

}  // namespace

base::Result<v1::SubmitRequest> make_submission(JobRequest& request, const std::string& contain,
                                                const base::Environment& environment, const std::string& directory) {
  model::JobSpec& job = request.job;
  settle_directories(job, directory);
  MUSTER_RETURN_IF_ERROR(settle_stage_env(job, environment, directory));
  MUSTER_RETURN_IF_ERROR(read_env_files(request, directory));
  job.umask = current_umask();
  // Without a list, launcherd chooses the hosts. The allocation of this shell is not launcherd's, so don't use it.
  if (!request.hostfile.empty() || !request.elastic.discovery_script.empty() || request.host_numbers) {
    MUSTER_RETURN_IF_ERROR(find_hosts(request, environment, directory).status());
  }
  MUSTER_RETURN_IF_ERROR(settle_dmlc(request, true));
  MUSTER_RETURN_IF_ERROR(settle_size(request));
  MUSTER_RETURN_IF_ERROR(settle_places(job));
  v1::SubmitRequest submit;
  *submit.mutable_spec() = proto::to_proto(job);
  // Clear the lease, so that launcherd's default holds. hvdrun's own lease is short, because its ranks end with it.
  submit.mutable_spec()->clear_lease();
  submit.mutable_spec()->set_contain(contain);
  submit.mutable_spec()->set_elastic_policy(elastic_policy_of(request));
  proto::set_environment(model::exported_variables(environment, job.environment, false), *submit.mutable_environment());
  for (const model::Role& role : job.roles) {
    const model::ExportPolicy own{.named = role.environment, .only_named = true};
    proto::set_environment(model::exported_variables(environment, own, false),
                           *submit.add_role_environment()->mutable_environment());
  }
  return submit;
}

base::Result<std::string> submit_once(const launcherd::LauncherAddress& launcher, v1::SubmitRequest request) {
  if (request.request_id().empty()) request.set_request_id(base::random_hex(kRequestIdBytes));
  const auto submitted = launcherd::ApiClient(launcher).submit(request, kPatience);
  if (submitted.ok()) return submitted->job_id();
  const base::Status& failure = submitted.status();
  if (failure.code() != base::Code::kDeadlineExceeded) return in_words_of_options(failure, *submit_doc().table);
  return base::error(failure.code(),
                     "{}; the job may have been submitted all the same: see muster jobs before you try again; muster "
                     "submit --request-id {} makes no second one",
                     failure.message(), request.request_id());
}

}  // namespace muster::cli::verbs
