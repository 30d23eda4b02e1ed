// What a command line was read as, on one line, for the tables of several tests.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/strings.h"
#include "cli/options/options.h"

namespace muster::cli {

using Words = std::vector<std::string>;

inline ParsedHvdrun parse(const Words& words, const base::Environment& environment = {}) {
  return parse_hvdrun(words, environment, {.build_id = "0123456789abcdef", .system_config = "/nowhere/config.yaml"});
}

// "3" or, by local rank, "0,0:1,1:2" after what others have.
inline std::string show(const model::StreamMap& map) {
  std::string text = fmt::format("{}", map.of_others);
  for (const auto& [rank, streams] : map.of_ranks) text += fmt::format(",{}:{}", rank, streams);
  return text;
}

// The values of an accepted command line that are not the defaults, in the order of the help.
inline std::string show(const ParsedHvdrun& parsed) {
  const model::JobSpec& job = parsed.options.request.job;
  const auto& bootstrap = parsed.options.reach.bootstrap;
  const HvdrunOptions plain;
  std::string text;
  const auto add = [&](const std::string& piece) { text += (text.empty() ? "" : " ") + piece; };
  if (job.placement.np != 0) add(fmt::format("np={}", job.placement.np));
  if (job.placement.ranks_per_node != 0) add(fmt::format("per_node={}", job.placement.ranks_per_node));
  if (job.placement.oversubscribe) add("oversubscribe");
  if (job.placement.map_by == model::MapBy::kNode) add("by_node");
  for (const auto& host : job.placement.hosts) add(fmt::format("host={}:{}", host.name, host.slots.value_or(-1)));
  if (!parsed.options.request.hostfile.empty()) add("hostfile=" + parsed.options.request.hostfile);
  if (parsed.options.request.host_numbers) {
    for (const auto& [first, last] : parsed.options.request.host_numbers->ranges)
      add(fmt::format("nodes={}-{}", first, last));
  }
  if (parsed.options.request.spares != 0) add(fmt::format("spare={}", parsed.options.request.spares));
  if (job.failure.on_failure != model::OnFailure::kFail) {
    add(fmt::format("on_failure={}", static_cast<int>(job.failure.on_failure)));
  }
  for (const auto& host : job.failure.spares) add(fmt::format("reserve={}:{}", host.name, host.slots.value_or(-1)));
  if (job.failure.min_ranks != 1) add(fmt::format("fewest={}", job.failure.min_ranks));
  if (job.failure.min_hosts != 1) add(fmt::format("fewest_hosts={}", job.failure.min_hosts));
  if (!job.failure.progress_text.empty()) add("progress=" + job.failure.progress_text);
  if (!job.failure.progress_file.empty()) add("file=" + job.failure.progress_file);
  if (const auto policy = parsed.options.request.elastic_policy)
    add(fmt::format("elastic={}", static_cast<int>(*policy)));
  if (job.failure.failed_host_cooldown) add(fmt::format("cooldown={}ms", job.failure.failed_host_cooldown->count()));
  if (job.hang.timeout != model::HangPolicy().timeout) add(fmt::format("hang={}ms", job.hang.timeout.count()));
  if (job.hang.on_hang != model::OnHang::kWarn) add(fmt::format("on_hang={}", static_cast<int>(job.hang.on_hang)));
  if (job.max_restarts != 0) add(fmt::format("restarts={}", job.max_restarts));
  if (parsed.options.request.health_check != HealthCheck::kOff) {
    add(fmt::format("health={}", static_cast<int>(parsed.options.request.health_check)));
  }
  for (const auto& interface : job.network_interfaces) add("nic=" + interface);
  if (job.network) add("network=" + job.network->str());
  if (bootstrap.default_port != 0) add(fmt::format("port={}", bootstrap.default_port));
  if (!bootstrap.identity_file.empty()) add("identity=" + bootstrap.identity_file);
  if (bootstrap.backend == launcherd::SshBackend::kLibssh) add("backend=libssh");
  if (bootstrap.backend == launcherd::SshBackend::kSsh) add("backend=ssh");
  if (bootstrap.by != launcherd::BootstrapBy::kAuto) add(fmt::format("by={}", static_cast<int>(bootstrap.by)));
  if (!bootstrap.command.empty()) add("command=" + bootstrap.command);
  if (parsed.options.reach.fanout != launcherd::kDefaultFanout) {
    add(fmt::format("fanout={}", parsed.options.reach.fanout));
  }
  if (parsed.options.reach.agent_link != "auto") add("link=" + parsed.options.reach.agent_link);
  if (!bootstrap.agent_dir.empty() && bootstrap.agent_dir != "~/.cache/muster") add("agent_dir=" + bootstrap.agent_dir);
  for (const auto& named : job.environment.named) add("env=" + named);
  for (const auto& staged : job.stages) add(fmt::format("stage={}:{}", staged.source, staged.destination));
  if (!job.stage_env.empty()) add("stage_env=" + job.stage_env);
  for (const auto& file : parsed.options.request.env_files) add("env_file=" + file);
  if (job.environment.only_named) add("only_named");
  if (!job.workdir.empty()) add("wdir=" + job.workdir);
  if (!job.expand.empty()) add("expand");
  const model::Pinning& pinning = job.pinning;
  if (pinning.bind_to != model::BindTo::kShare) add("bind=" + model::bind_to_word(pinning));
  if (pinning.depth != 1) add(fmt::format("depth={}", pinning.depth));
  if (pinning.hyperthreads != 0) add(fmt::format("hyperthreads={}", pinning.hyperthreads));
  if (!pinning.reserved_cores.empty()) add("reserved=" + model::format_cpu_list(pinning.reserved_cores));
  if (pinning.gpu_order != model::GpuOrder::kNearest) add("gpu_order=" + model::gpu_order_word(pinning));
  if (pinning.gpus_per_rank != 0) add("gpus_per_rank=" + std::to_string(pinning.gpus_per_rank));
  if (pinning.share_gpu) add("share_gpu");
  if (pinning.gpus != 0) add("gpu_tiles=" + model::gpu_tiles_word(pinning));
  if (!job.container.image.empty()) add("container=" + job.container.image);
  for (const auto& word : job.container.args) add("container_arg=" + word);
  if (!job.container.program.empty()) add("container_program=" + job.container.program);
  for (const auto& limit : job.limits) {
    const auto value = [](std::uint64_t number) {
      return number == model::Ulimit::kUnlimited ? "unlimited" : fmt::format("{}", number);
    };
    add(fmt::format("limit={}:{}:{}", model::ulimit_name(limit.resource), value(limit.soft), value(limit.hard)));
  }
  if (!job.output_dir.empty()) add("output=" + job.output_dir);
  if (!job.log_dir.empty()) add("log=" + job.log_dir);
  if (job.log_layout == model::LogLayout::kTorchrun) add("layout=torchrun");
  for (const auto& words : job.output.filters) {
    if (!words.empty()) add("filter=" + base::join(words, "|"));
  }
  if (job.output.files != plain.request.job.output.files) add("files=" + show(job.output.files));
  if (!job.output.hidden.is_empty()) add("hidden=" + show(job.output.hidden));
  for (const int rank : job.output.shown_ranks.value_or(std::set<int>())) add(fmt::format("shown={}", rank));
  const ElasticOptions& elastic = parsed.options.request.elastic;
  if (!elastic.discovery_script.empty()) add("discovery=" + elastic.discovery_script);
  if (elastic.min_ranks) add(fmt::format("min={}", *elastic.min_ranks));
  if (elastic.max_ranks) add(fmt::format("max={}", *elastic.max_ranks));
  if (parsed.options.request.devices)
    add(fmt::format("devices={}", static_cast<int>(parsed.options.request.devices->of)));
  if (job.prefix_timestamp) add("timestamp");
  model::LabelFormat standard;
  if (job.prefix_timestamp) standard.add_time();
  if (const Fold fold = parsed.options.output.fold; fold != Fold::kAuto)
    add("fold=" + std::to_string(static_cast<int>(fold)));
  if (parsed.options.output.label != standard) add("label=" + parsed.options.output.label.label(3, "stdout", "noon"));
  if (parsed.options.output.verbose) add("verbose");
  if (parsed.options.output.reports_bindings) add("bindings");
  if (parsed.options.output.quiet) add("quiet");
  if (!parsed.options.output.events_file.empty()) add("events=" + parsed.options.output.events_file);
  if (!parsed.options.output.tensorboard_dir.empty()) add("tensorboard=" + parsed.options.output.tensorboard_dir);
  if (!parsed.options.reach.launcher.empty()) add("launcher=" + parsed.options.reach.launcher);
  if (!parsed.options.request.name.empty()) add("name=" + parsed.options.request.name);
  if (job.start_timeout != plain.request.job.start_timeout) add(fmt::format("start={}ms", job.start_timeout.count()));
  if (job.min_hosts != 0) add(fmt::format("least_hosts={}", job.min_hosts));
  if (job.timeout) add(fmt::format("timeout={}ms", job.timeout->count()));
  if (job.kill_grace != plain.request.job.kill_grace) add(fmt::format("grace={}ms", job.kill_grace.count()));
  if (job.end_signal) add(fmt::format("signal={}@{}ms", job.end_signal->signo, job.end_signal->ahead.count()));
  if (job.runtime != model::Runtime::kAuto) add(fmt::format("runtime={}", model::runtime_word(job.runtime)));
  if (const auto& dmlc = parsed.options.request.dmlc) {
    add(fmt::format("workers={} servers={}", dmlc->counts.workers, dmlc->counts.servers));
  }
  if (job.on_exit == model::OnExit::kAnyKill) add("any-kill");
  if (job.on_exit == model::OnExit::kWait) add("wait");
  if (parsed.options.reach.contain != "auto") add("contain=" + parsed.options.reach.contain);
  for (const auto& note : parsed.options.output.notes) add("note=" + note.substr(0, note.find(':')));
  return text;
}

}  // namespace muster::cli
