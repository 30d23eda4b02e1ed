// This file splits torchrun's command line (cut_line), fills the job from it, and makes the ranks' command.
// Read from the end: parse_torchrun(), cut_line(), read_line(), read_torchs(), make_command().
#include "cli/foreign/torchrun.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>

#include "base/strings.h"
#include "cli/help/base_names.h"
#include "cli/options/command_line.h"
#include "cli/options/config_file.h"
#include "cli/options/failure_options.h"
#include "cli/options/hvdrun_flags.h"
#include "cli/options/setting_reader.h"
#include "model/output_routes.h"

namespace muster::cli::inline foreign {
namespace {

using Words = std::vector<std::string>;

constexpr std::string_view kLaunchModule = "torch.distributed.launch";
constexpr std::string_view kRunModule = "torch.distributed.run";

// The old command line, split into its parts.
struct TorchLine {
  CommandLine ours;                 // only options of hvdrun
  std::vector<Setting> torchs;      // options of torch's launchers
  Words script;                     // the script and its arguments
  std::string python;               // the Python named before -m; empty if none is named
  bool is_launch = false;           // the line is one of torch.distributed.launch
  std::optional<CommandLine> help;  // the options up to -h or --help, if it is among them
  bool has_dashes = false;          // an option is spelled with dashes, as --nproc-per-node is
  bool has_underscores = false;     // an option is spelled as --nproc_per_node
};

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

bool is_python(const std::string& word) {
  const std::string name = base_name(word);
  return name.starts_with("python") && name.find_first_not_of("0123456789.", 6) == std::string::npos;
}

// Returns the number of leading words that name one of torch's launchers. 0 if they name none.
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
  for (const ParsedOption& option : line.options) {
    if (is_hvdruns(*option.flag)) {
      ParsedOption ours = option;
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
  if (const std::size_t named = line.is_answered ? 0 : take_launcher_name(line.command, into); named > 0) {
    sort_options(line, into);
    const Words rest(line.command.begin() + static_cast<std::ptrdiff_t>(named), line.command.end());
    MUSTER_ASSIGN_OR_RETURN(line, split_command_line(rest, torchrun_flags()));
  }
  if (line.is_answered) into.help = line;
  sort_options(line, into);
  into.script = std::move(line.command);
  return into;
}

// Returns the settings of PET_NNODES and so on. torchrun reads such a variable for each of its options.
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

Status read_ranks_per_host(const Settings& settings, SettingReader& read, JobRequest& request) {
  using Of = DeviceCount::Of;
  const Setting* setting = settings.find("nproc-per-node");
  constexpr std::pair<std::string_view, Of> kWords[] = {
      {"gpu", Of::kGpus}, {"cpu", Of::kCpus}, {"auto", Of::kGpusElseCpus}};
  for (const auto& [word, of] : kWords) {
    if (setting == nullptr || setting->value != word) continue;
    request.job.placement.ranks_per_node = 0;  // one rank for each slot
    request.devices = DeviceCount{of, fmt::format("{} {}", setting->label, word)};
    return base::ok_status();
  }
  if (setting != nullptr && setting->value == "xpu") {
    return base::unimplemented("{}: Intel's GPUs are not counted: give the number of ranks", setting->label);
  }
  if (setting != nullptr && !setting->value.empty() &&
      setting->value.find_first_of("0123456789") == std::string::npos) {
    return base::invalid_argument("{} must be gpu, cpu, auto or a number, not '{}'", setting->label,
                                  base::printable(setting->value));
  }
  read.number("nproc-per-node", 1, model::kMaxSlotsPerHost, request.job.placement.ranks_per_node);
  return read.status();
}

Status read_ranks(const Settings& settings, SettingReader& read, JobRequest& request) {
  model::PlacementRequest& placement = request.job.placement;
  placement.np = 0;  // torchrun sets a number of ranks per host, so ignore a configuration file's -np
  placement.ranks_per_node = 1;
  MUSTER_RETURN_IF_ERROR(read_ranks_per_host(settings, read, request));
  read.custom("nnodes", [&](const Setting& setting) -> Status {
    const auto parts = base::split(setting.value, ':');
    const auto min = base::parse_decimal(parts.front(), model::kMaxHosts);
    const auto max = base::parse_decimal(parts.back(), model::kMaxHosts);
    if (parts.size() > 2 || !min || !max || *min == 0 || *min > *max) {
      return base::invalid_argument("{} must be a number of hosts, or MIN:MAX, not '{}'", setting.label,
                                    base::printable(setting.value));
    }
    request.nodes = NodeCount{static_cast<int>(*min), static_cast<int>(*max), setting.label};
    return base::ok_status();
  });
  bool is_standalone = false;
  read.toggle("standalone", is_standalone);
  MUSTER_RETURN_IF_ERROR(read.status());
  if (!is_standalone) return base::ok_status();
  if (!placement.hosts.empty() || !request.hostfile.empty()) {
    return base::invalid_argument("--standalone means this host: leave -H and --hostfile out, or --standalone");
  }
  model::HostSpec localhost;
  localhost.name = "localhost";
  placement.hosts = {localhost};
  return base::ok_status();
}

Result<model::StreamMap> read_streams(const Settings& settings, const char* name) {
  const Setting* setting = settings.find(name);
  if (setting == nullptr) return model::StreamMap{};
  auto map = model::parse_stream_map(setting->value);
  if (!map.ok()) return base::invalid_argument("{} {}", setting->label, map.status().message());
  return map;
}

// Returns for every rank the streams that `a` or `b` selects.
model::StreamMap joined(const model::StreamMap& a, const model::StreamMap& b) {
  model::StreamMap both{.of_others = a.of_others | b.of_others};
  for (const model::StreamMap& map : {a, b}) {
    for (const auto& [rank, streams] : map.of_ranks) both.of_ranks[rank] = a.of(rank) | b.of(rank);
  }
  return both;
}

// Returns for every rank the streams that `a` selects and `b` does not.
model::StreamMap without(const model::StreamMap& a, const model::StreamMap& b) {
  model::StreamMap rest{.of_others = a.of_others & ~b.of_others};
  for (const model::StreamMap& map : {a, b}) {
    for (const auto& [rank, streams] : map.of_ranks) rest.of_ranks[rank] = a.of(rank) & ~b.of(rank);
  }
  return rest;
}

// Reads the words of --duplicate-stdout-filters and --duplicate-stderr-filters. Adds a note if there is no directory
// for the files.
void read_filters(const Settings& settings, model::JobSpec& job, std::vector<std::string>& notes) {
  constexpr std::array<const char*, 2> kNames = {"duplicate-stdout-filters", "duplicate-stderr-filters"};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const Setting* const setting = settings.find(kNames[i]);
    if (setting == nullptr) continue;
    if (job.log_dir.empty()) {
      notes.push_back(setting->label + ": writes no file without --log-dir");
      continue;
    }
    for (const std::string_view word : base::split(setting->value, ',')) {
      if (!word.empty()) job.output.filters[i].emplace_back(word);
    }
  }
}

// Adds a note if there is no directory to lay out.
Status read_log_layout(const Settings& settings, SettingReader& read, model::JobSpec& job,
                       std::vector<std::string>& notes) {
  std::string layout;
  read.word("log-layout", layout);
  MUSTER_RETURN_IF_ERROR(read.status());
  if (layout != "torchrun") return base::ok_status();
  if (job.log_dir.empty()) notes.push_back(settings.find("log-layout")->label + ": writes no file without --log-dir");
  if (!job.log_dir.empty()) job.log_layout = model::LogLayout::kTorchrun;
  return base::ok_status();
}

// Reads the options on logs. torch writes the streams of --redirects and --tee to its log directory. torch 1.x, with
// --logdir, writes all streams there. A stream that goes to no file stays on the console.
Status read_logs(const Settings& settings, SettingReader& read, model::JobSpec& job, std::vector<std::string>& notes) {
  std::string directory;
  read.text("log-dir", directory);
  MUSTER_ASSIGN_OR_RETURN(const model::StreamMap redirects, read_streams(settings, "redirects"));
  MUSTER_ASSIGN_OR_RETURN(const model::StreamMap tee, read_streams(settings, "tee"));
  const bool all = settings.find("log-dir") != nullptr && settings.find("log-dir")->origin == "--logdir";
  const model::StreamMap files = joined(redirects, tee);
  if (job.output_dir.empty() && (all || !files.is_empty())) {
    job.output_dir = directory;
    if (!all) job.output.files = files;
  }
  if (!job.output_dir.empty()) job.output.hidden = without(redirects, tee);
  job.log_dir = directory;
  MUSTER_RETURN_IF_ERROR(read_log_layout(settings, read, job, notes));
  read_filters(settings, job, notes);
  for (const char* name : {"redirects", "tee"}) {
    const bool some = !(std::string_view(name) == "tee" ? tee : redirects).is_empty();
    if (some && job.output_dir.empty()) {
      notes.push_back(settings.find(name)->label + ": writes no file without --log-dir");
    }
  }
  read.custom("local-ranks-filter", [&](const Setting& setting) -> Status {
    auto ranks = model::parse_local_ranks(setting.value);
    if (!ranks.ok()) return base::invalid_argument("{} {}", setting.label, ranks.status().message());
    job.output.shown_ranks = std::move(*ranks);
    return base::ok_status();
  });
  return read.status();
}

Status read_binding(SettingReader& read, model::JobSpec& job) {
  std::string binding;
  read.word("numa-binding", binding);
  MUSTER_RETURN_IF_ERROR(read.status());
  if (binding == "node") job.pinning.bind_to = model::BindTo::kNuma;
  if (binding == "socket") job.pinning.bind_to = model::BindTo::kSocket;
  if (binding == "exclusive") job.pinning.bind_to = model::BindTo::kShare;
  if (binding == "core-complex") {
    return base::unimplemented("--numa-binding core-complex comes later: node, socket and exclusive are there");
  }
  return base::ok_status();
}

// --virtual-local-rank: a rank has LOCAL_RANK 0 and sees only its own GPU.
Status read_virtual_rank(SettingReader& read, model::JobSpec& job) {
  bool is_virtual = false;
  read.toggle("virtual-local-rank", is_virtual);
  if (is_virtual) job.pinning.gpu_bind = model::GpuBind::kOne;
  return read.status();
}

void read_run_id(const Settings& settings, model::JobSpec& job) {
  const Setting* const id = settings.find("rdzv-id");
  if (id != nullptr) job.environment.named.push_back("TORCHELASTIC_RUN_ID=" + id->value);
}

Status read_shutdown_timeout(SettingReader& read, model::JobSpec& job) {
  std::optional<long> seconds;
  read.number("shutdown-timeout", 0, 86'400, seconds);
  if (seconds) job.kill_grace = std::chrono::seconds(*seconds);
  return read.status();
}

void note_without_effect(const Settings& settings, std::vector<std::string>& notes) {
  if (const Setting* const setting = settings.find("log-line-prefix-template")) {
    notes.push_back(setting->label + ": has no effect: lines begin with [rank]<stdout>:");
  }
}

void note_unneeded(const Settings& settings, const JobRequest& request, std::vector<std::string>& notes) {
  std::string unneeded;
  for (const Setting& setting : settings.entries()) {
    if (setting.flag->group != FlagGroup::kTorchUnneeded && setting.flag->name != "nnodes") continue;
    unneeded += (unneeded.empty() ? "" : ", ") + setting.label;
  }
  const bool only_nodes = request.nodes && unneeded == request.nodes->label;
  if (unneeded.empty() || only_nodes) return;
  notes.push_back(
      fmt::format("{}: not needed: this one command starts the ranks on all hosts and brings them together", unneeded));
}

// torchrun's elastic jobs, --nnodes MIN:MAX, go on with fewer hosts, unless --on-failure says something else.
void set_failure_policy(const Settings& ours, JobRequest& request) {
  if (!request.nodes || request.nodes->min >= request.nodes->max) return;
  model::FailurePolicy& policy = request.job.failure;
  if (ours.find("on-failure") == nullptr) policy.on_failure = model::OnFailure::kShrink;
  policy.min_hosts = request.nodes->min;
}

Status read_torchs(const Settings& ours, const Settings& settings, HvdrunOptions& options) {
  JobRequest& request = options.request;
  model::JobSpec& job = request.job;
  std::vector<std::string>& notes = options.output.notes;
  SettingReader read(settings);
  MUSTER_RETURN_IF_ERROR(read_ranks(settings, read, request));
  MUSTER_RETURN_IF_ERROR(read_logs(settings, read, job, notes));
  MUSTER_RETURN_IF_ERROR(read_binding(read, job));
  MUSTER_RETURN_IF_ERROR(read_virtual_rank(read, job));
  MUSTER_RETURN_IF_ERROR(read_shutdown_timeout(read, job));
  read_run_id(settings, job);
  read.number("max-restarts", 0, 1'000'000, job.max_restarts);
  set_failure_policy(ours, request);
  read.text("role", job.role);
  job.torch_agent_store = true;  // torchrun's agent does so, too
  MUSTER_RETURN_IF_ERROR(read.status());
  note_unneeded(settings, request, notes);
  note_without_effect(settings, notes);
  return base::ok_status();
}

// Runs the script as torch's workers do: it is __main__, and sys.argv is the same as if it had been started alone.
constexpr const char* kRunPath =
    "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')";

// Inserts the script's argument of torch.distributed.launch: --local_rank before torch 2.0, --local-rank since. Only
// the rank's own torch knows its version, so this reads its version.py without importing torch.
// The words are: the rank's number, the separator to use if there is no torch, the place of the argument in the
// command, and the command. This Python then becomes the command.
constexpr const char* kInsertLocalRank =
    R"(import importlib.util, os, re, sys
_, rank, between, at, *words = sys.argv
sys.path = [folder for folder in sys.path if folder]
try:
    folder = os.path.dirname(importlib.util.find_spec('torch').origin)
    with open(os.path.join(folder, 'version.py')) as file:
        major = int(re.search(r'^__version__[^=]*=\s*[\x22\x27](\d+)', file.read(), re.M)[1])
    between = '-' if major >= 2 else '_'
except (AttributeError, ImportError, OSError, TypeError, ValueError):
    pass
words.insert(int(at), f'--local{between}rank={rank}')
os.execvp(words[0], words))";

// Puts these words before `command`. The script is the command's last word so far; the rank's number goes behind it.
void insert_local_rank(const std::string& python, const char* separator, model::JobSpec& job) {
  const std::string at = std::to_string(job.command.size());
  const Words prefix = {python, "-c", kInsertLocalRank, "{local_rank}", separator, at};
  job.command.insert(job.command.begin(), prefix.begin(), prefix.end());
  job.expand = {3};
}

// Makes the command of a rank as torch's launchers do.
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
  bool is_virtual = false;
  read.toggle("virtual-local-rank", is_virtual);
  bool by_path = false;  // wins over --no-python; such a script gets no --local_rank
  read.toggle("run-path", by_path);
  no_python = no_python && !by_path;
  use_env = use_env || asks_env || by_path;
  MUSTER_RETURN_IF_ERROR(read.status());
  if (line.script.empty() || line.script.front().empty()) {
    return base::invalid_argument("no script is given, as in muster torchrun --nproc-per-node 4 train.py");
  }
  if (is_module && no_python) return base::invalid_argument("--module and --no-python exclude each other");
  if (is_module && by_path) return base::invalid_argument("--module and --run-path exclude each other");
  const auto named = environment.get("PYTHON_EXEC");
  const std::string python = named ? std::string(*named) : line.python.empty() ? "python3" : line.python;
  if (!no_python) {
    job.command = {python, "-u"};
    if (is_module) job.command.emplace_back("-m");
    if (by_path) job.command.insert(job.command.end(), {"-c", kRunPath});
  }
  job.command.push_back(line.script.front());
  if (!use_env) insert_local_rank(python, line.has_dashes && !line.has_underscores ? "-" : "_", job);
  job.command.insert(job.command.end(), line.script.begin() + 1, line.script.end());
  if (is_virtual) {
    job.command.insert(job.command.begin(), {"env", "LOCAL_RANK=0"});
    for (std::size_t& at : job.expand) at += 2;
  }
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
  MUSTER_RETURN_IF_ERROR(assume_template_node(ours, environment, parsed.options.dry_run));
  MUSTER_RETURN_IF_ERROR(read_torchs(ours, torchs, parsed.options));
  MUSTER_RETURN_IF_ERROR(check_restarts(parsed.options.request));
  if (parsed.options.dry_run.is_on && line.script.empty()) return parsed;
  MUSTER_RETURN_IF_ERROR(make_command(line, torchs, environment, parsed.options.request.job));
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
  if (line->help) return answer_help(*line->help, torchrun_doc(), context.look);
  Result<ParsedHvdrun> parsed = read_line(std::move(line).value(), environment, context);
  return parsed.ok() ? std::move(parsed).value() : mistake(parsed.status());
}

}  // namespace muster::cli::foreign
