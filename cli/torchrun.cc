#include "cli/torchrun.h"

#include <algorithm>

#include "base/strings.h"
#include "cli/command_line.h"
#include "cli/config_file.h"
#include "cli/help.h"
#include "cli/setting_reader.h"

namespace muster::cli {
namespace {

using base::Code;
using base::error;
using base::Result;
using base::Status;
using Words = std::vector<std::string>;

constexpr std::string_view kLaunchModule = "torch.distributed.launch";
constexpr std::string_view kRunModule = "torch.distributed.run";

// The old command line, cut up.
struct TorchLine {
  CommandLine ours;             // options of hvdrun, and nothing else
  std::vector<Setting> torchs;  // its own options
  Words script;                 // and its arguments
  std::string python;           // as named before -m; empty: not named
  bool is_launch = false;       // torch.distributed.launch
  bool asks_help = false;
  bool has_dashes = false;       // --nproc-per-node rather than …
  bool has_underscores = false;  // … --nproc_per_node
};

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

bool is_python(const std::string& word) {
  const std::string name = base_name(word);
  return name.starts_with("python") && name.find_first_not_of("0123456789.", 6) == std::string::npos;
}

// How many words of `words` say which of torch's launchers this is; 0: none of them does.
std::size_t take_launcher_name(const Words& words, TorchLine& line) {
  if (!words.empty() && base_name(words[0]) == "torchrun") return 1;
  if (words.size() < 3 || !is_python(words[0])) return 0;
  const std::size_t at = words[1] == "-u" ? 2 : 1;
  if (words[at] != "-m" || at + 1 >= words.size()) return 0;
  if (words[at + 1] != kLaunchModule && words[at + 1] != kRunModule) return 0;
  line.python = words[0];
  line.is_launch = words[at + 1] == kLaunchModule;
  return at + 2;
}

bool is_hvdruns(const Flag& flag) {
  return flag.group != FlagGroup::kTorch && flag.group != FlagGroup::kTorchUnneeded;
}

void sort_options(const CommandLine& line, TorchLine& into) {
  for (const GivenOption& option : line.options) {
    if (is_hvdruns(*option.flag)) {
      GivenOption ours = option;
      ours.flag = &hvdrun_flags().named(option.flag->name);
      into.ours.options.push_back(std::move(ours));
      continue;
    }
    into.torchs.push_back({option.flag, option.value, option.spelling, option.spelling});
    into.has_underscores = into.has_underscores || option.spelling.find('_') != std::string::npos;
    into.has_dashes = into.has_dashes || option.spelling.find('-', 2) != std::string::npos;
  }
}

Result<TorchLine> cut_line(const std::string& verb, const Words& words) {
  TorchLine into;
  into.is_launch = verb == kLaunchModule;
  MUSTER_ASSIGN_OR_RETURN(CommandLine line, split_command_line(words, torchrun_flags()));
  into.asks_help = line.is_answered;
  if (const std::size_t named = into.asks_help ? 0 : take_launcher_name(line.command, into); named > 0) {
    sort_options(line, into);
    const Words rest(line.command.begin() + static_cast<std::ptrdiff_t>(named), line.command.end());
    MUSTER_ASSIGN_OR_RETURN(line, split_command_line(rest, torchrun_flags()));
    into.asks_help = line.is_answered;
  }
  sort_options(line, into);
  into.script = std::move(line.command);
  return into;
}

// PET_NNODES and the like: torchrun reads one for each of its options.
std::vector<Setting> variables_of(const base::Environment& environment) {
  std::vector<Setting> layer;
  for (const Flag& flag : torchrun_flags().flags()) {
    if (is_hvdruns(flag)) continue;
    const std::string variable = "PET_" + flag.variable().substr(std::string_view("MUSTER_").size());
    const auto value = environment.get(variable);
    if (value && !value->empty()) layer.push_back({&flag, std::string(*value), variable, variable});
  }
  return layer;
}

Status read_ranks(SettingReader& read, HvdrunOptions& options) {
  model::PlacementRequest& placement = options.job.placement;
  placement.np = 0;  // N on every host, whatever a configuration file says
  placement.ranks_per_node = 1;
  read.custom("nproc-per-node", [](const Setting& setting) {
    const bool is_word =
        setting.value == "gpu" || setting.value == "cpu" || setting.value == "xpu" || setting.value == "auto";
    return is_word ? error(Code::kUnimplemented, "{}: counting a host's devices comes later: give the number of ranks",
                           setting.label)
                   : base::ok_status();
  });
  read.number("nproc-per-node", 1, model::kMaxSlotsPerHost, placement.ranks_per_node);
  read.custom("nnodes", [&](const Setting& setting) -> Status {
    const auto parts = base::split(setting.value, ':');
    const auto min = base::parse_decimal(parts.front(), model::kMaxHosts);
    const auto max = base::parse_decimal(parts.back(), model::kMaxHosts);
    if (parts.size() > 2 || !min || !max || *min == 0 || *min > *max) {
      return error(Code::kInvalidArgument, "{} must be a number of hosts, or MIN:MAX, not '{}'", setting.label,
                   base::printable(setting.value));
    }
    options.nodes = NodeCount{static_cast<int>(*min), static_cast<int>(*max), setting.label};
    return base::ok_status();
  });
  bool is_standalone = false;
  read.toggle("standalone", is_standalone);
  MUSTER_RETURN_IF_ERROR(read.status());
  if (!is_standalone) return base::ok_status();
  if (!placement.hosts.empty() || !options.hostfile.empty()) {
    return error(Code::kInvalidArgument, "--standalone means this host: leave -H and --hostfile out, or --standalone");
  }
  model::HostSpec localhost;
  localhost.name = "localhost";
  placement.hosts = {localhost};
  return base::ok_status();
}

// "0" to "3", or "0:1,1:2": which streams of which local ranks. Whether there are any.
Result<bool> read_streams(const Setting& setting) {
  bool any = false;
  for (const std::string_view part : base::split(setting.value, ',')) {
    const auto colon = part.find(':');
    const bool has_rank = colon == std::string_view::npos || base::parse_decimal(part.substr(0, colon), 1'000'000);
    const auto streams = base::parse_decimal(colon == std::string_view::npos ? part : part.substr(colon + 1), 3);
    if (!streams || !has_rank) {
      return error(Code::kInvalidArgument, "{} must be a number from 0 to 3, or RANK:NUMBER,…, not '{}'", setting.label,
                   base::printable(setting.value));
    }
    any = any || *streams != 0;
  }
  return any;
}

Status read_logs(const Settings& settings, SettingReader& read, HvdrunOptions& options) {
  std::string directory;
  read.text("log-dir", directory);
  bool any = settings.find("log-dir") != nullptr && settings.find("log-dir")->origin == "--logdir";
  for (const char* name : {"redirects", "tee"}) {
    const Setting* setting = settings.find(name);
    if (setting == nullptr) continue;
    MUSTER_ASSIGN_OR_RETURN(const bool some, read_streams(*setting));
    any = any || some;
    if (some && directory.empty()) options.notes.push_back(setting->label + ": writes no file without --log-dir");
    if (some && setting->flag->name == "redirects") {
      options.notes.push_back(setting->label + ": the console gets the output as well");
    }
  }
  if (any && options.job.output_dir.empty()) options.job.output_dir = directory;
  return base::ok_status();
}

Status read_binding(SettingReader& read, HvdrunOptions& options) {
  std::string binding;
  read.word("numa-binding", binding);
  MUSTER_RETURN_IF_ERROR(read.status());
  if (binding == "node") options.job.bind_to = model::BindTo::kNuma;
  if (binding == "socket") options.job.bind_to = model::BindTo::kSocket;
  if (binding == "exclusive") options.job.bind_to = model::BindTo::kShare;
  if (binding == "core-complex") {
    return error(Code::kUnimplemented, "--numa-binding core-complex comes later: node, socket and exclusive are there");
  }
  return base::ok_status();
}

void note_unneeded(const Settings& settings, HvdrunOptions& options) {
  std::string unneeded;
  for (const Setting& setting : settings.entries()) {
    if (setting.flag->group != FlagGroup::kTorchUnneeded && setting.flag->name != "nnodes") continue;
    unneeded += (unneeded.empty() ? "" : ", ") + setting.label;
  }
  const bool only_nodes = options.nodes && unneeded == options.nodes->label;
  if (unneeded.empty() || only_nodes) return;
  options.notes.push_back(
      fmt::format("{}: not needed: this one command starts the ranks on all hosts and brings them together", unneeded));
}

Status read_torchs(const Settings& settings, HvdrunOptions& options) {
  SettingReader read(settings);
  MUSTER_RETURN_IF_ERROR(read_ranks(read, options));
  MUSTER_RETURN_IF_ERROR(read_logs(settings, read, options));
  MUSTER_RETURN_IF_ERROR(read_binding(read, options));
  read.number("max-restarts", 0, 1'000'000, options.job.max_restarts);
  read.text("role", options.job.role);
  options.job.torch_agent_store = true;  // as torchrun's agent does
  MUSTER_RETURN_IF_ERROR(read.status());
  for (const Setting& setting : settings.entries()) {
    if (setting.flag->answer == Answer::kRefusal) {
      return error(Code::kUnimplemented, "{}: {}", setting.label, setting.flag->answer_text);
    }
  }
  note_unneeded(settings, options);
  return base::ok_status();
}

// The command of a rank, as torch's launchers put it together.
Status make_command(TorchLine& line, const Settings& settings, const base::Environment& environment,
                    model::JobSpec& job) {
  SettingReader read(settings);
  bool is_module = false;
  bool no_python = false;
  bool use_env = !line.is_launch;
  read.toggle("module", is_module);
  read.toggle("no-python", no_python);
  bool asks_env = false;
  read.toggle("use-env", asks_env);
  use_env = use_env || asks_env;
  MUSTER_RETURN_IF_ERROR(read.status());
  if (line.script.empty() || line.script.front().empty()) {
    return error(Code::kInvalidArgument, "no script is given, as in muster torchrun --nproc-per-node 4 train.py");
  }
  if (is_module && no_python) return error(Code::kInvalidArgument, "--module and --no-python exclude each other");
  if (!no_python) {
    const auto named = environment.get("PYTHON_EXEC");
    job.command.push_back(named ? std::string(*named) : line.python.empty() ? "python3" : line.python);
    job.command.emplace_back("-u");
    if (is_module) job.command.emplace_back("-m");
  }
  job.command.push_back(line.script.front());
  if (!use_env) {
    const bool dashes = line.has_dashes && !line.has_underscores;
    job.expand = {job.command.size()};
    job.command.emplace_back(dashes ? "--local-rank={local_rank}" : "--local_rank={local_rank}");
  }
  job.command.insert(job.command.end(), line.script.begin() + 1, line.script.end());
  return base::ok_status();
}

Result<ParsedHvdrun> read_line(TorchLine line, const base::Environment& environment, const ParseContext& context) {
  MUSTER_ASSIGN_OR_RETURN(const Settings ours,
                          gather_settings(line.ours, environment, context.system_config, hvdrun_flags()));
  Settings torchs;
  MUSTER_RETURN_IF_ERROR(torchs.add_layer(variables_of(environment)));
  MUSTER_RETURN_IF_ERROR(torchs.add_layer(line.torchs));
  ParsedHvdrun parsed;
  MUSTER_ASSIGN_OR_RETURN(parsed.options, read_options(ours));
  MUSTER_RETURN_IF_ERROR(read_torchs(torchs, parsed.options));
  if (parsed.options.dry_run.is_on && line.script.empty()) return parsed;
  MUSTER_RETURN_IF_ERROR(make_command(line, torchs, environment, parsed.options.job));
  return parsed;
}

ParsedHvdrun answer(int exit_code, std::string text) {
  ParsedHvdrun parsed;
  parsed.exit_code = exit_code;
  parsed.text = std::move(text);
  return parsed;
}

}  // namespace

ParsedHvdrun parse_torchrun(const std::string& verb, const std::vector<std::string>& arguments,
                            const base::Environment& environment, const ParseContext& context) {
  const auto mistake = [&](const Status& status) {
    return answer(2, fmt::format("muster {}: {}\n", verb, status.message()));
  };
  Result<TorchLine> line = cut_line(verb, arguments);
  if (!line.ok()) return mistake(line.status());
  if (line->asks_help) return answer(0, help_text(torchrun_doc()));
  Result<ParsedHvdrun> parsed = read_line(std::move(line).value(), environment, context);
  return parsed.ok() ? std::move(parsed).value() : mistake(parsed.status());
}

}  // namespace muster::cli
