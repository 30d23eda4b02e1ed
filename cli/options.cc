#include "cli/options.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "cli/check_build.h"
#include "cli/command_line.h"
#include "cli/completion.h"
#include "cli/config_file.h"
#include "cli/help.h"
#include "cli/horovod_tuning.h"
#include "cli/man_page.h"
#include "cli/node_shapes.h"
#include "cli/print_config.h"
#include "cli/setting_reader.h"

namespace muster::cli {
namespace {

using base::Code;
using base::error;
using base::Result;
using base::Status;
using std::chrono::milliseconds;

Status check_variable(const std::string& named) {
  const std::string name = named.substr(0, named.find('='));
  const bool is_clean = std::ranges::none_of(name, [](unsigned char c) { return c <= ' ' || c == 0x7f; });
  if (!name.empty() && is_clean) return base::ok_status();
  return error(Code::kInvalidArgument, "'{}' is not the name of an environment variable: write NAME or NAME=VALUE",
               base::printable(name));
}

Status check_interface(const std::string& name) {
  constexpr std::size_t kMost = 15;  // IFNAMSIZ without its NUL
  const bool is_clean = std::ranges::none_of(
      name, [](unsigned char c) { return c <= ' ' || c == 0x7f || c == '/' || c == '^' || c == '='; });
  if (!name.empty() && name.size() <= kMost && is_clean) return base::ok_status();
  return error(Code::kInvalidArgument, "'{}' is not the name of a network interface: write them as eth0,ib0",
               base::printable(name));
}

void read_placement(SettingReader& read, HvdrunOptions& options) {
  model::PlacementRequest& placement = options.job.placement;
  read.number("num-proc", 1, model::kMaxRanks, placement.np);
  read.number("ranks-per-node", 1, model::kMaxSlotsPerHost, placement.ranks_per_node);
  read.toggle("oversubscribe", placement.oversubscribe);
  read.choice("map-by", std::vector{model::MapBy::kSlot, model::MapBy::kNode}, placement.map_by);
  read.text("hostfile", options.hostfile);
  read.custom("hosts", [&](const Setting& setting) -> Status {
    auto hosts = model::parse_host_list(setting.value, setting.label);
    if (!hosts.ok()) return hosts.status();
    placement.hosts = std::move(*hosts);
    return base::ok_status();
  });
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

void read_reach(SettingReader& read, HvdrunOptions& options) {
  using launcherd::SshBackend;
  read.number("ssh-port", 1, 65535, options.bootstrap.default_port);
  read.text("ssh-identity-file", options.bootstrap.identity_file);
  read.choice("ssh-backend", std::vector{SshBackend::kAuto, SshBackend::kLibssh, SshBackend::kSsh},
              options.bootstrap.backend);
  read.word("agent-link", options.launch.agent_link);
  read.text("agent-dir", options.bootstrap.agent_dir);
}

void read_program(SettingReader& read, HvdrunOptions& options) {
  model::JobSpec& job = options.job;
  // horovodrun's options first: a variable that the user names himself wins over them.
  job.environment.named = horovod_tuning(read);
  // NCCL takes those of the list that a host has, all of them. The others take one: the launcher chooses it for each
  // host, once it knows the host's interfaces.
  if (!job.network_interfaces.empty()) {
    job.environment.named.push_back("NCCL_SOCKET_IFNAME=" + base::join(job.network_interfaces, ","));
  }
  read.custom("env", [&](const Setting& setting) -> Status {
    MUSTER_RETURN_IF_ERROR(check_variable(setting.value).with_context(setting.label));
    job.environment.named.push_back(setting.value);
    return base::ok_status();
  });
  read.toggle("env-none", job.environment.only_named);
  read.text("wdir", job.workdir);
  using model::BindTo;
  read.choice("bind-to", std::vector{BindTo::kShare, BindTo::kNone, BindTo::kCore, BindTo::kNuma, BindTo::kSocket},
              job.bind_to);
  using model::GpuBind;
  read.choice("gpu-bind", std::vector{GpuBind::kOrder, GpuBind::kOne, GpuBind::kNone}, job.gpu_bind);
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
    if (!parsed.ok()) return error(Code::kInvalidArgument, "{} {}", setting.label, parsed.status().message());
    input = *parsed;
    return base::ok_status();
  });
  read.toggle("pty", input.pty);
}

void read_output(SettingReader& read, HvdrunOptions& options) {
  read.text("output-filename", options.job.output_dir);
  read.toggle("prefix-output-with-timestamp", options.job.prefix_timestamp);
  read.toggle("verbose", options.launch.verbose);
  read.toggle("quiet", options.quiet);
  read.text("json-events", options.events_file);
  read.text("launcher", options.launcher);
}

void read_life(SettingReader& read, HvdrunOptions& options) {
  model::JobSpec& job = options.job;
  read.time("start-timeout", milliseconds(1), job.start_timeout);
  read.time("timeout", milliseconds(1), job.timeout);
  read.time("kill-grace", milliseconds(0), job.kill_grace);
  read.word("contain", options.launch.contain);
  using model::OnExit;
  read.choice("on-exit", std::vector{OnExit::kNonzeroKill, OnExit::kAnyKill, OnExit::kWait}, job.on_exit);
}

Status check_cooldown(const Setting& setting) {
  constexpr long kMost = 3600;
  const auto words = base::split(setting.value, ' ');
  const auto low = base::parse_decimal(words.front(), kMost);
  const auto high = base::parse_decimal(words.back(), kMost);
  if (words.size() == 2 && low && high && *low >= 1 && *low <= *high) return base::ok_status();
  return error(Code::kInvalidArgument, "{} takes two numbers, the lower one first, from 1 to {} seconds, not '{}'",
               setting.label, kMost, base::printable(setting.value));
}

// Elastic jobs come later: what they need beyond the start is checked, so that a mistake is found today, and answered
// by their note.
void read_elastic(SettingReader& read, ElasticOptions& elastic) {
  std::optional<long> ignored;
  read.text("host-discovery-script", elastic.discovery_script);
  read.number("min-num-proc", 1, model::kMaxRanks, elastic.min_ranks);
  read.number("max-num-proc", 1, model::kMaxRanks, elastic.max_ranks);
  read.number("slots-per-host", 1, model::kMaxSlotsPerHost, elastic.slots_per_host);
  read.number("elastic-timeout", 0, 1'000'000'000, ignored);
  read.number("reset-limit", 0, 1'000'000'000, ignored);
  read.custom("blacklist-cooldown-range", check_cooldown);
}

// hvdrun's ranks find each other over TCP; a program that was told to use MPI would find itself alone.
void check_controller(SettingReader& read) {
  std::string controller;
  read.word("controller", controller);
  if (controller.empty() || controller == "gloo") return;
  read.custom("controller", [&](const Setting& setting) {
    return error(Code::kUnimplemented,
                 "{}: Horovod's controller {} comes later in hvdrun; the same program runs with --gloo", setting.label,
                 controller);
  });
}

void read_dry_run(SettingReader& read, DryRunOptions& dry_run) {
  read.toggle("dry-run", dry_run.is_on);
  read.toggle("json", dry_run.json);
  read.custom("assume-node", [&](const Setting& setting) -> Status {
    auto node = parse_assumed_node(setting.value);
    if (!node.ok()) return node.status().with_context(setting.label);
    dry_run.assumed_node = std::move(*node);
    return base::ok_status();
  });
  read.toggle("probe", dry_run.probe);
  if (dry_run.probe && dry_run.assumed_node) {
    read.custom("assume-node", [](const Setting& setting) {
      return error(Code::kInvalidArgument,
                   "{} and --probe exclude each other: say what the hosts look like, or ask them", setting.label);
    });
  }
  for (const char* name : {"json", "assume-node", "probe"}) {
    if (dry_run.is_on) break;
    read.custom(name, [](const Setting& setting) {
      return error(Code::kInvalidArgument, "{} belongs to --dry-run", setting.label);
    });
  }
}

// Options with the same note share a line.
Status answer_unsupported(const Settings& settings, std::vector<std::string>& notes) {
  std::vector<std::pair<std::string_view, std::string>> labels;  // by note
  for (const Setting& setting : settings.entries()) {
    const Flag& flag = *setting.flag;
    if (!flag.harmless.empty() && setting.value == flag.harmless) continue;
    if (flag.answer == Answer::kRefusal) {
      return error(Code::kUnimplemented, "{}: {}", setting.label, flag.answer_text);
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

ParsedHvdrun answer(int exit_code, std::string text) {
  ParsedHvdrun parsed;
  parsed.exit_code = exit_code;
  parsed.text = std::move(text);
  return parsed;
}

ParsedHvdrun mistake(const Status& status) {
  return answer(2, fmt::format("hvdrun: {}\n", status.message()));
}

ParsedHvdrun answer_alone(const GivenOption& option, const ParseContext& context) {
  const std::string_view name = option.flag->name;
  if (name == "help") return answer(0, help_text(hvdrun_doc()));
  if (name == "version") return answer(0, version_text("hvdrun", context.build_id));
  if (name == "man") return answer(0, man_page(hvdrun_doc()));
  const auto script = completion(option.value, {.name = "hvdrun", .verbs = {{"", &hvdrun_flags()}}});
  if (script) return answer(0, *script);
  return mistake(error(Code::kInvalidArgument, "{} must be one of bash, zsh, fish, not '{}'", option.spelling,
                       base::printable(option.value)));
}

Status take_command(CommandLine& line, model::JobSpec& job) {
  if (line.command.empty()) {
    return error(Code::kInvalidArgument,
                 "no command is given: say what to run, as in hvdrun -np 4 python3 train.py; hvdrun --help tells more");
  }
  if (line.command.front().empty()) return error(Code::kInvalidArgument, "the command is an empty word");
  job.command = std::move(line.command);
  return base::ok_status();
}

// --self-test: the command is muster_perf, which lies beside this program.
Status take_self_test(CommandLine& line, const std::string& directory) {
  if (!line.command.empty()) {
    return error(Code::kInvalidArgument, "--self-test brings its own command: leave out '{}'",
                 base::printable(line.command.front()));
  }
  line.command = {directory + "/muster_perf", "--self-test"};
  return base::ok_status();
}

// --expand: in every word of the command.
void expand_all(model::JobSpec& job) {
  for (std::size_t i = 0; i < job.command.size(); ++i) job.expand.push_back(i);
}

bool is_on(const Settings& settings, std::string_view name) {
  const Setting* setting = settings.find(name);
  return setting != nullptr && parse_toggle(setting->value).value_or(false);
}

Result<ParsedHvdrun> read_job(CommandLine line, const base::Environment& environment, const ParseContext& context) {
  MUSTER_ASSIGN_OR_RETURN(const Settings settings,
                          gather_settings(line, environment, context.system_config, hvdrun_flags()));
  ParsedHvdrun parsed;
  MUSTER_ASSIGN_OR_RETURN(parsed.options, read_options(settings));
  if (is_on(settings, "print-config")) return answer(0, format_settings(settings, hvdrun_flags()));
  if (is_on(settings, "check-build")) return answer(0, format_build(this_build(), parsed.options.launch.verbose));
  // Who runs where does not depend on what runs.
  if (parsed.options.dry_run.is_on && line.command.empty()) return parsed;
  if (is_on(settings, "self-test")) MUSTER_RETURN_IF_ERROR(take_self_test(line, context.program_directory));
  MUSTER_RETURN_IF_ERROR(take_command(line, parsed.options.job));
  if (is_on(settings, "expand")) expand_all(parsed.options.job);
  return parsed;
}

}  // namespace

Result<HvdrunOptions> read_options(const Settings& settings) {
  HvdrunOptions options;
  SettingReader read(settings);
  read_placement(read, options);
  read_network(read, options.job);
  read_reach(read, options);
  read_program(read, options);
  read_input(read, options.job.input);
  read_output(read, options);
  read_life(read, options);
  read_elastic(read, options.elastic);
  check_controller(read);
  read_dry_run(read, options.dry_run);
  MUSTER_RETURN_IF_ERROR(read.status());
  MUSTER_RETURN_IF_ERROR(answer_unsupported(settings, options.notes));
  return options;
}

ParsedHvdrun parse_hvdrun(const std::vector<std::string>& arguments, const base::Environment& environment,
                          const ParseContext& context) {
  Result<CommandLine> line = split_command_line(arguments, hvdrun_flags());
  if (!line.ok()) return mistake(line.status());
  if (line->is_answered) return answer_alone(line->options.back(), context);
  Result<ParsedHvdrun> parsed = read_job(std::move(line).value(), environment, context);
  return parsed.ok() ? std::move(parsed).value() : mistake(parsed.status());
}

}  // namespace muster::cli
