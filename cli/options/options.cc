// This file reads one group of hvdrun's options in each read_…() function, then puts the job together.
// Read from the end: parse_hvdrun(), then read_job() and read_options(), then the group that you need.
#include "cli/options/options.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/cpu_set.h"
#include "base/signal_name.h"
#include "base/strings.h"
#include "cli/help/base_names.h"
#include "cli/help/completion_script.h"
#include "cli/help/help.h"
#include "cli/help/man_page.h"
#include "cli/options/check_build.h"
#include "cli/options/color_option.h"
#include "cli/options/command_line.h"
#include "cli/options/config_file.h"
#include "cli/options/dmlc_job.h"
#include "cli/options/failure_options.h"
#include "cli/options/fold_option.h"
#include "cli/options/horovod_tuning.h"
#include "cli/options/hvdrun_flags.h"
#include "cli/options/label_option.h"
#include "cli/options/node_shapes.h"
#include "cli/options/print_config.h"
#include "cli/options/programs.h"
#include "cli/options/setting_reader.h"
#include "cli/options/template_defaults.h"
#include "cli/options/template_line.h"
#include "job_templates/shape.h"

namespace muster::cli::inline options {
namespace {

constexpr int kMostFanout = 100'000;

using std::chrono::milliseconds;

Status check_interface(const std::string& name) {
  constexpr std::size_t kMost = 15;  // IFNAMSIZ without its NUL byte
  const bool is_clean = std::ranges::none_of(
      name, [](unsigned char c) { return c <= ' ' || c == 0x7f || c == '/' || c == '^' || c == '='; });
  if (!name.empty() && name.size() <= kMost && is_clean) return base::ok_status();
  return base::invalid_argument("'{}' is not the name of a network interface: write them as eth0,ib0",
                                base::printable(name));
}

void read_placement(SettingReader& read, JobRequest& request) {
  model::PlacementRequest& placement = request.job.placement;
  read.number("num-proc", 1, model::kMaxRanks, placement.np);
  read.number("ranks-per-node", 1, model::kMaxSlotsPerHost, placement.ranks_per_node);
  read.toggle("oversubscribe", placement.oversubscribe);
  read.choice("map-by", std::vector{model::MapBy::kSlot, model::MapBy::kNode}, placement.map_by);
  read.text("hostfile", request.hostfile);
  read.custom("hosts", [&](const Setting& setting) -> Status {
    auto hosts = model::parse_host_list(setting.value, setting.label);
    if (!hosts.ok()) return hosts.status();
    placement.hosts = std::move(*hosts);
    return base::ok_status();
  });
  read.custom("nodes", [&](const Setting& setting) -> Status {
    MUSTER_ASSIGN_OR_RETURN(request.host_numbers, parse_host_numbers(setting.value, setting.label));
    return base::ok_status();
  });
  read.choice("health-check", std::vector{HealthCheck::kOff, HealthCheck::kQuick, HealthCheck::kFull},
              request.health_check);
  read_spares(read, request);
  if (request.spares > 0 && request.health_check == HealthCheck::kOff) request.health_check = HealthCheck::kQuick;
}

void read_network(SettingReader& read, model::JobSpec& job) {
  read.custom("network-interfaces", [&](const Setting& setting) -> Status {
    for (const std::string_view part : base::split(setting.value, ',')) {
      const std::string name(base::trim(part));
      MUSTER_RETURN_IF_ERROR(check_interface(name).with_context(setting.label));
      if (std::ranges::find(job.network_interfaces, name) == job.network_interfaces.end()) {
        job.network_interfaces.push_back(name);
      }
    }
    return base::ok_status();
  });
  read.custom("network", [&](const Setting& setting) -> Status {
    auto network = base::IpNetwork::parse(setting.value);
    if (!network.ok()) return network.status().with_context(setting.label);
    job.network = std::move(*network);
    return base::ok_status();
  });
}

void read_reach(SettingReader& read, Reach& reach) {
  using launcherd::SshBackend;
  read.number("ssh-port", 1, 65535, reach.bootstrap.default_port);
  read.text("ssh-identity-file", reach.bootstrap.identity_file);
  read.choice("ssh-backend", std::vector{SshBackend::kAuto, SshBackend::kLibssh, SshBackend::kSsh},
              reach.bootstrap.backend);
  using launcherd::BootstrapBy;
  reach.bootstrap.by = BootstrapBy::kAuto;
  read.choice(
      "bootstrap",
      std::vector{BootstrapBy::kAuto, BootstrapBy::kSsh, BootstrapBy::kSrun, BootstrapBy::kAprun, BootstrapBy::kPals,
                  BootstrapBy::kPbsdsh, BootstrapBy::kFlux, BootstrapBy::kJsrun, BootstrapBy::kManual},
      reach.bootstrap.by);
  read.custom("bootstrap-cmd", [&](const Setting& setting) -> Status {
    if (setting.value.empty()) return base::invalid_argument("{} is empty", setting.label);
    if (reach.bootstrap.by != BootstrapBy::kAuto) {
      return base::invalid_argument("{} and --bootstrap exclude each other: one of them starts the agents",
                                    setting.label);
    }
    reach.bootstrap.by = BootstrapBy::kCommand;
    reach.bootstrap.command = setting.value;
    return base::ok_status();
  });
  read.word("agent-link", reach.agent_link);
  read.number("fanout", 0, kMostFanout, reach.fanout);
  read.word("contain", reach.contain);
  read.text("launcher", reach.launcher);
  read.text("agent-dir", reach.bootstrap.agent_dir);
}

void read_pinning(SettingReader& read, model::Pinning& pinning) {
  const auto word = [&](std::string_view name, auto parse) {
    bool is_set = false;
    read.custom(name, [&](const Setting& setting) -> Status {
      is_set = true;
      return parse(setting.value, pinning).with_context(setting.label);
    });
    return is_set;
  };
  const bool is_bound = word("bind-to", model::parse_bind_to);
  read.custom("depth", [&](const Setting& setting) -> Status {
    if (!is_bound) pinning.bind_to = model::BindTo::kDepth;
    if (pinning.bind_to == model::BindTo::kDepth) return base::ok_status();
    return base::invalid_argument("{} belongs to --bind-to depth", setting.label);
  });
  read.number("depth", 1, base::kMaxCpu, pinning.depth);
  read.number("hyperthreads", 1, model::kMostThreads, pinning.hyperthreads);
  word("reserve-cores", model::parse_reserved_cores);
  using model::GpuBind;
  read.choice("gpu-bind", std::vector{GpuBind::kOrder, GpuBind::kOne, GpuBind::kTile, GpuBind::kNone},
              pinning.gpu_bind);
  read.custom("gpus-per-rank", [&](const Setting& setting) -> Status {
    if (pinning.gpu_bind != GpuBind::kNone) return base::ok_status();
    return base::invalid_argument("{} and --gpu-bind none exclude each other: none gives no rank a GPU", setting.label);
  });
  read.number("gpus-per-rank", 1, model::kMostGpus, pinning.gpus_per_rank);
  read.toggle("share-gpu", pinning.share_gpu);
  word("gpu-order", model::parse_gpu_order);
  word("gpu-tiles", model::parse_gpu_tiles);
}

void read_container(SettingReader& read, model::Container& container) {
  read.text("container", container.image);
  for (const char* name : {"container-args", "container-program"}) {
    if (!container.image.empty()) break;
    read.custom(name, [](const Setting& setting) {
      return base::invalid_argument("{} belongs to --container", setting.label);
    });
  }
  read.text("container-program", container.program);
  read.custom("container-args", [&](const Setting& setting) -> Status {
    auto words = model::split_words(setting.value);
    if (!words.ok()) return words.status().with_context(setting.label);
    container.args = *std::move(words);
    return base::ok_status();
  });
}

// Parses SRC or SRC:DST as the user typed it. job_hosts.h makes the paths absolute.
Result<model::StagedPath> parse_stage(const Setting& setting) {
  const std::size_t colon = setting.value.find(':');
  model::StagedPath staged{.source = setting.value.substr(0, colon)};
  if (colon != std::string::npos) staged.destination = setting.value.substr(colon + 1);
  if (staged.source.empty() || (colon != std::string::npos && staged.destination.empty())) {
    return base::invalid_argument("{} takes a path, or two as SRC:DST, not '{}'", setting.label,
                                  base::printable(setting.value));
  }
  return staged;
}

void read_program(SettingReader& read, JobRequest& request) {
  read.text("name", request.name);
  model::JobSpec& job = request.job;
  // Put horovodrun's options first, so that a variable that the user names wins over them.
  job.environment.named = horovod_tuning(read);
  // NCCL accepts the whole list and uses the interfaces that a host has. Other libraries accept one interface. The
  // launcher chooses it for each host, once it knows the host's interfaces.
  if (!job.network_interfaces.empty()) {
    job.environment.named.push_back("NCCL_SOCKET_IFNAME=" + base::join(job.network_interfaces, ","));
  }
  read.custom("env", [&](const Setting& setting) -> Status {
    MUSTER_RETURN_IF_ERROR(check_variable(setting.value).with_context(setting.label));
    job.environment.named.push_back(setting.value);
    return base::ok_status();
  });
  read.custom("env-file", [&](const Setting& setting) -> Status {
    request.env_files.push_back(setting.value);
    return base::ok_status();
  });
  read.custom("stage", [&](const Setting& setting) -> Status {
    MUSTER_ASSIGN_OR_RETURN(model::StagedPath staged, parse_stage(setting));
    job.stages.push_back(std::move(staged));
    return base::ok_status();
  });
  read.text("stage-env", job.stage_env);
  read.toggle("env-none", job.environment.only_named);
  read.text("wdir", job.workdir);
  read_pinning(read, job.pinning);
  read_container(read, job.container);
  read.custom("ulimit", [&](const Setting& setting) -> Status {
    const auto limit = model::parse_ulimit(setting.value);
    if (!limit.ok()) return limit.status().with_context(setting.label);
    job.limits.push_back(*limit);
    return base::ok_status();
  });
}

void read_input(SettingReader& read, model::JobInput& input) {
  read.custom("stdin", [&](const Setting& setting) -> Status {
    auto parsed = model::parse_input(setting.value);
    if (!parsed.ok()) return base::invalid_argument("{} {}", setting.label, parsed.status().message());
    input = *parsed;
    return base::ok_status();
  });
  read.toggle("pty", input.pty);
}

void read_output(SettingReader& read, model::JobSpec& job, OutputPlan& output) {
  read.text("output-filename", job.output_dir);
  read.toggle("prefix-output-with-timestamp", job.prefix_timestamp);
  read.toggle("verbose", output.verbose);
  read.toggle("report-bindings", output.reports_bindings);
  read.toggle("quiet", output.quiet);
  read.text("json-events", output.events_file);
  read.text("tensorboard", output.tensorboard_dir);
}

Result<model::EndSignal> parse_end_signal(const Setting& setting) {
  const std::size_t at = setting.value.find('@');
  const auto signo = base::signal_named(std::string_view(setting.value).substr(0, at));
  const auto ahead = at == std::string::npos ? Result<milliseconds>(base::invalid_argument("no time"))
                                             : parse_duration(std::string_view(setting.value).substr(at + 1));
  if (signo && ahead.ok()) return model::EndSignal{*signo, *ahead};
  return base::invalid_argument("{} takes a signal and the time before the end, such as USR1@120 or TERM@5m, not '{}'",
                                setting.label, base::printable(setting.value));
}

void read_life(SettingReader& read, model::JobSpec& job) {
  read.time("start-timeout", milliseconds(1), job.start_timeout);
  read.number("min-hosts", 1, model::kMaxHosts, job.min_hosts);
  read.time("timeout", milliseconds(1), job.timeout);
  read.time("kill-grace", milliseconds(0), job.kill_grace);
  read.custom("signal", [&](const Setting& setting) -> Status {
    MUSTER_ASSIGN_OR_RETURN(job.end_signal, parse_end_signal(setting));
    return base::ok_status();
  });
  using model::Runtime;
  read.choice("runtime",
              std::vector{Runtime::kAuto, Runtime::kTorch, Runtime::kHorovod, Runtime::kMpi, Runtime::kMxnet,
                          Runtime::kJax, Runtime::kTensorflow, Runtime::kNone},
              job.runtime);
  using model::OnExit;
  read.choice("on-exit", std::vector{OnExit::kNonzeroKill, OnExit::kAnyKill, OnExit::kWait}, job.on_exit);
}

// Refuse MPI, because hvdrun's ranks find each other over TCP. A program that uses MPI would run alone.
void check_controller(SettingReader& read) {
  std::string controller;
  read.word("controller", controller);
  if (controller.empty() || controller == "gloo") return;
  read.custom("controller", [&](const Setting& setting) {
    return base::unimplemented("{}: hvdrun does not support Horovod's controller {} yet; run the program with --gloo",
                               setting.label, controller);
  });
}

void read_dry_run(SettingReader& read, DryRunOptions& dry_run) {
  read.toggle("dry-run", dry_run.is_on);
  read.toggle("json", dry_run.json);
  const Setting* assumed = nullptr;
  read.custom("assume-node", [&](const Setting& setting) -> Status {
    assumed = &setting;
    if (!is_node_shape(setting.value)) return base::ok_status();  // the name of a template; apply_template() handles it
    auto node = parse_assumed_node(setting.value);
    if (!node.ok()) return node.status().with_context(setting.label);
    dry_run.assumed_node = std::move(*node);
    return base::ok_status();
  });
  read.toggle("probe", dry_run.probe);
  if (dry_run.probe && assumed != nullptr) {
    read.custom("assume-node", [](const Setting& setting) {
      return base::invalid_argument("{} and --probe exclude each other: give the shape of the hosts, or ask them",
                                    setting.label);
    });
  }
  for (const char* name : {"json", "assume-node", "probe"}) {
    if (dry_run.is_on) break;
    read.custom(
        name, [](const Setting& setting) { return base::invalid_argument("{} belongs to --dry-run", setting.label); });
  }
}

// Refuses unsupported options, or adds a note for them. Options with the same note share a line.
Status answer_unsupported(const Settings& settings, std::vector<std::string>& notes) {
  std::vector<std::pair<std::string_view, std::string>> labels;  // each with the text of its note
  for (const Setting& setting : settings.entries()) {
    const Flag& flag = *setting.flag;
    if (!flag.harmless.empty() && setting.value == flag.harmless) continue;
    if (!flag.answer_unless.empty() && settings.find(flag.answer_unless) != nullptr) continue;
    if (flag.answer == Answer::kRefusal) {
      return base::unimplemented("{}: {}", setting.label, flag.answer_text);
    }
    if (flag.answer != Answer::kNote) continue;
    const auto found = std::ranges::find(labels, flag.answer_text, &std::pair<std::string_view, std::string>::first);
    if (found == labels.end()) {
      labels.emplace_back(flag.answer_text, setting.label);
    } else {
      found->second += ", " + setting.label;
    }
  }
  for (const auto& [text, all] : labels) notes.push_back(fmt::format("{}: {}", all, text));
  return base::ok_status();
}

ParsedHvdrun mistake(const Status& status) {
  return answer(2, fmt::format("hvdrun: {}\n", status.message()));
}

ParsedHvdrun answer_alone(const CommandLine& line, const ParseContext& context) {
  const ParsedOption& option = line.options.back();
  const std::string_view name = option.flag->name;
  if (is_help(option)) return answer_help(line, hvdrun_doc(), context.look);
  if (name == "version") return answer(0, version_text("hvdrun", context.build_id));
  if (name == "man") return answer(0, man_page(hvdrun_doc()));
  const auto script = completion_script(option.value, "hvdrun");
  if (script) return answer(0, *script);
  return mistake(base::invalid_argument("{} must be one of bash, zsh, fish, not '{}'", option.spelling,
                                        base::printable(option.value)));
}

Status read_command(CommandLine& line, model::JobSpec& job) {
  if (line.command.empty()) {
    return base::invalid_argument(
        "no command is given: add the program to run, as in hvdrun -np 4 python3 train.py; see hvdrun --help");
  }
  if (line.command.front().empty()) return base::invalid_argument("the command is an empty word");
  job.command = std::move(line.command);
  return base::ok_status();
}

// --self-test: runs muster_perf, which lies in the same directory as this program.
Status read_self_test(CommandLine& line, const std::string& directory) {
  if (!line.command.empty()) {
    return base::invalid_argument("--self-test brings its own command: leave out '{}'",
                                  base::printable(line.command.front()));
  }
  line.command = {directory + "/muster_perf", "--self-test"};
  return base::ok_status();
}

// --expand: placeholders are expanded in every word of the command.
void expand_all(model::JobSpec& job) {
  for (std::size_t i = 0; i < job.command.size(); ++i) job.expand.push_back(i);
  job.expands_roles = !job.roles.empty();
}

bool is_on(const Settings& settings, std::string_view name) {
  const Setting* setting = settings.find(name);
  return setting != nullptr && parse_toggle(setting->value).value_or(false);
}

Result<job_templates::Template> named_template(const ParsedOption& option, const base::Environment& environment) {
  auto found = find_template(option.value, environment);
  if (found.ok()) return found;
  const bool is_node = option.flag->name == "assume-node";
  return error(found.status().code(), "{}: {}{}", option.spelling, found.status().message(),
               is_node ? "; a shape is SOCKETSxCORES[xTHREADS][+GPUS]" : "");
}

// Returns the last option `name` on the line. nullptr if the line has none.
const ParsedOption* last_option(const CommandLine& line, std::string_view name) {
  const ParsedOption* found = nullptr;
  for (const ParsedOption& option : line.options) {
    if (option.flag->name == name) found = &option;
  }
  return found;
}

// The template that -t names, or else --assume-node, with its plan and its defaults.
struct ChosenTemplate {
  std::optional<job_templates::Template> job_template;
  job_templates::LaunchPlan plan;
  std::vector<Setting> defaults;
};

Result<ChosenTemplate> read_chosen_template(const CommandLine& line, const base::Environment& environment) {
  ChosenTemplate chosen;
  const ParsedOption* option = last_option(line, "template");
  const ParsedOption* set = last_option(line, "set");
  if (option == nullptr && set != nullptr) {
    return base::invalid_argument("{} belongs to -t", set->spelling);
  }
  if (option == nullptr) option = last_option(line, "assume-node");
  if (option == nullptr || (option->flag->name == "assume-node" && is_node_shape(option->value))) return chosen;
  MUSTER_ASSIGN_OR_RETURN(chosen.job_template, named_template(*option, environment));
  job_templates::Values values(*chosen.job_template);
  for (const ParsedOption& each : line.options) {
    if (each.flag->name == "set") MUSTER_RETURN_IF_ERROR(set_parameter(each.value, values));
  }
  MUSTER_ASSIGN_OR_RETURN(chosen.plan, job_templates::plan_launch(values));
  MUSTER_ASSIGN_OR_RETURN(chosen.defaults, settings_of(chosen.plan, "template " + chosen.job_template->name));
  return chosen;
}

Status assume_node(const job_templates::Template& job_template, DryRunOptions& dry_run) {
  MUSTER_ASSIGN_OR_RETURN(dry_run.assumed_node, job_templates::node_shape(job_template));
  dry_run.host_pattern = job_template.node.names;
  return base::ok_status();
}

// Returns a warning if the template, and not the user, has chosen that a rank sees one tile. Common scripts then select
// a wrong device. Empty if no warning is needed.
std::string tile_note(const Settings& settings) {
  const Setting* const bind = settings.find("gpu-bind");
  if (bind == nullptr || bind->value != "tile" || !bind->origin.starts_with("template ")) return {};
  return fmt::format(
      "{}: each rank sees only its own tile, as device 0, so set_device(local_rank) fails from local rank 1 on; if you "
      "want that, give --gpu-bind tile",
      bind->origin);
}

// Applies the parts of a template that are not options: its notes, and its node, which is the shape of hosts that are
// not probed.
Status apply_template(const ChosenTemplate& chosen, const Settings& settings, const base::Environment& environment,
                      HvdrunOptions& options) {
  MUSTER_RETURN_IF_ERROR(assume_template_node(settings, environment, options.dry_run));
  if (!chosen.job_template) return base::ok_status();
  const auto& notes = chosen.job_template->notes;
  options.output.notes.insert(options.output.notes.end(), notes.begin(), notes.end());
  std::string left_out = job_templates::left_out_note(*chosen.job_template);
  std::string tile = tile_note(settings);
  for (std::string* note : {&left_out, &tile}) {
    if (!note->empty() && !options.dry_run.is_on) options.output.notes.push_back(std::move(*note));
  }
  const bool is_asked = !options.dry_run.is_on || options.dry_run.probe || options.dry_run.assumed_node;
  return is_asked || !chosen.job_template->node.is_known() ? base::ok_status()
                                                           : assume_node(*chosen.job_template, options.dry_run);
}

Result<ParsedHvdrun> read_job(CommandLine line, const base::Environment& environment, const ParseContext& context) {
  MUSTER_ASSIGN_OR_RETURN(const ChosenTemplate chosen, read_chosen_template(line, environment));
  MUSTER_ASSIGN_OR_RETURN(auto roles, read_programs(line, environment, hvdrun_flags()));
  MUSTER_ASSIGN_OR_RETURN(const Settings settings, gather_settings(line, environment, context.system_config,
                                                                   hvdrun_flags(), chosen.defaults, NamedFile::kJob));
  ParsedHvdrun parsed;
  MUSTER_ASSIGN_OR_RETURN(parsed.options, read_options(settings));
  MUSTER_RETURN_IF_ERROR(apply_template(chosen, settings, environment, parsed.options));
  if (is_on(settings, "print-config")) return answer(0, format_settings(settings, hvdrun_flags()));
  if (is_on(settings, "check-build")) return answer(0, format_build(this_build(), parsed.options.output.verbose));
  MUSTER_RETURN_IF_ERROR(set_roles(std::move(roles), settings, parsed.options.request.job));
  MUSTER_RETURN_IF_ERROR(check_programs(parsed.options.request));
  MUSTER_RETURN_IF_ERROR(check_restarts(parsed.options.request));
  MUSTER_RETURN_IF_ERROR(check_elastic_policy(parsed.options.request, !parsed.options.reach.launcher.empty()));
  // A dry run needs no command, because the placement does not depend on it.
  if (parsed.options.dry_run.is_on && line.command.empty()) return parsed;
  if (is_on(settings, "self-test")) MUSTER_RETURN_IF_ERROR(read_self_test(line, context.program_directory));
  model::JobSpec& job = parsed.options.request.job;
  if (job.roles.empty()) MUSTER_RETURN_IF_ERROR(read_command(line, job));
  const auto put_prefix = [&](std::vector<std::string>& command) {
    if (!command.empty()) command.insert(command.begin(), chosen.plan.prefix.begin(), chosen.plan.prefix.end());
  };
  put_prefix(job.command);
  for (model::Role& role : job.roles) put_prefix(role.command);
  if (is_on(settings, "expand")) expand_all(job);
  return parsed;
}

}  // namespace

Status check_programs(const JobRequest& request) {
  if (request.job.roles.empty() && !request.dmlc) return base::ok_status();
  if (request.job.min_hosts > 0) {
    return base::invalid_argument("--min-hosts: a job of several programs needs all its hosts; leave --min-hosts out");
  }
  if (request.job.live) {
    return base::invalid_argument("--min-np: a job of several programs cannot be elastic; leave --min-np out");
  }
  if (!model::may_change_hosts(request.job.failure)) return base::ok_status();
  return base::invalid_argument(
      "--on-failure replace and shrink: a job of several programs keeps its hosts; use --on-failure restart");
}

ParsedHvdrun answer(int exit_code, std::string text) {
  ParsedHvdrun parsed;
  parsed.exit_code = exit_code;
  parsed.text = std::move(text);
  return parsed;
}

ParsedHvdrun answer_help(const CommandLine& line, const CommandDoc& doc, const TextLook& look) {
  ParsedHvdrun parsed = answer(0, help_text_for(*line.options.back().flag, doc, look));
  parsed.is_help = true;
  return parsed;
}

Status assume_template_node(const Settings& settings, const base::Environment& environment, DryRunOptions& dry_run) {
  const Setting* setting = settings.find("assume-node");
  if (setting == nullptr || is_node_shape(setting->value)) return base::ok_status();
  MUSTER_ASSIGN_OR_RETURN(const auto found,
                          named_template({setting->flag, setting->label, setting->value}, environment));
  return assume_node(found, dry_run);
}

Result<HvdrunOptions> read_options(const Settings& settings) {
  HvdrunOptions options;
  JobRequest& request = options.request;
  model::JobSpec& job = request.job;
  options.output.notes = settings.notes();
  SettingReader read(settings);
  read_placement(read, request);
  read_network(read, job);
  read_reach(read, options.reach);
  read_program(read, request);
  read_input(read, job.input);
  read_output(read, job, options.output);
  read_life(read, job);
  read_dmlc(read, request);
  // Agents started by hand need longer, so raise the default start timeout.
  const bool is_typed = options.reach.bootstrap.by == launcherd::BootstrapBy::kManual;
  if (is_typed && settings.find("start-timeout") == nullptr) job.start_timeout = std::chrono::minutes(10);
  options.reach.bootstrap.start_timeout = job.start_timeout;
  read_elastic(read, request.elastic, job.live);
  check_sizes(read, request);
  read_failure(read, request);
  check_controller(read);
  read_dry_run(read, options.dry_run);
  MUSTER_RETURN_IF_ERROR(read.status());
  MUSTER_ASSIGN_OR_RETURN(options.output.label, read_label_format(settings));
  MUSTER_ASSIGN_OR_RETURN(options.output.fold, read_fold(settings));
  MUSTER_ASSIGN_OR_RETURN(options.output.color, read_color(settings));
  MUSTER_RETURN_IF_ERROR(answer_unsupported(settings, options.output.notes));
  return options;
}

ParsedHvdrun parse_hvdrun(const std::vector<std::string>& arguments, const base::Environment& environment,
                          const ParseContext& context) {
  Result<CommandLine> line = split_command_line(
      arguments, hvdrun_flags(), context.is_horovodrun ? Abbreviations::kHorovodruns : Abbreviations::kNone);
  if (!line.ok()) return mistake(line.status());
  if (line->is_answered) return answer_alone(*line, context);
  Result<ParsedHvdrun> parsed = read_job(std::move(line).value(), environment, context);
  return parsed.ok() ? std::move(parsed).value() : mistake(parsed.status());
}

}  // namespace muster::cli::options
