// This file splits launch.py's command line (cut_line), then fills the job from it (read_line).
// Read from the end: parse_dmlc(), cut_line(), read_line(), read_own().
#include "cli/foreign/dmlc.h"

#include <algorithm>
#include <optional>

#include "base/file.h"
#include "base/strings.h"
#include "cli/help/base_names.h"
#include "cli/options/command_line.h"
#include "cli/options/config_file.h"
#include "cli/options/failure_options.h"
#include "cli/options/hvdrun_flags.h"
#include "cli/options/setting_reader.h"
#include "model/runtime.h"

namespace muster::cli::inline foreign {
namespace {

using Words = std::vector<std::string>;

constexpr std::size_t kMostHostBytes = std::size_t{1} << 24;

bool is_of_dmlc(const Flag& flag) {
  return flag.group == FlagGroup::kTorch;
}

// Returns the number of words that name launch.py itself: `launch.py` is 1, `python … launch.py` is 2. 0 if none do.
std::size_t launcher_words(const Words& words) {
  const auto is_launch = [](const std::string& word) { return word.substr(word.rfind('/') + 1) == "launch.py"; };
  if (!words.empty() && is_launch(words[0])) return 1;
  const bool is_python = words.size() > 1 && words[0].substr(words[0].rfind('/') + 1).starts_with("python");
  return is_python && is_launch(words[1]) ? 2 : 0;
}

struct DmlcLine {
  CommandLine ours;
  std::vector<Setting> own;
  Words command;
  std::optional<CommandLine> help;  // the options up to -h or --help, if it is among them
};

void sort_options(const CommandLine& line, DmlcLine& into) {
  for (const ParsedOption& option : line.options) {
    if (is_of_dmlc(*option.flag)) {
      into.own.push_back({option.flag, option.value, option.spelling, option.spelling});
    } else if (option.flag->name != "help") {
      ParsedOption ours = option;
      ours.flag = &hvdrun_flags().named(option.flag->name);
      into.ours.options.push_back(std::move(ours));
    }
  }
}

Result<DmlcLine> cut_line(const Words& words) {
  DmlcLine into;
  MUSTER_ASSIGN_OR_RETURN(CommandLine line, split_command_line(words, dmlc_flags()));
  const std::size_t named = line.is_answered ? 0 : launcher_words(line.command);
  if (named > 0) {
    sort_options(line, into);
    const Words rest(line.command.begin() + static_cast<std::ptrdiff_t>(named), line.command.end());
    MUSTER_ASSIGN_OR_RETURN(line, split_command_line(rest, dmlc_flags()));
  }
  sort_options(line, into);
  if (line.is_answered) into.help = line;
  into.command = std::move(line.command);
  return into;
}

// Adds NAME:VALUE, launch.py's form, or NAME=VALUE. NAME alone is accepted if `may_be_bare`.
Status add_variable(const Setting& setting, bool may_be_bare, std::vector<std::string>& into) {
  std::string named = setting.value;
  const std::size_t at = named.find_first_of(":=");
  if (at != std::string::npos) named[at] = '=';
  MUSTER_RETURN_IF_ERROR(check_variable(named).with_context(setting.label));
  if (at == std::string::npos && !may_be_bare) {
    return base::invalid_argument("{} takes NAME:VALUE, not '{}'", setting.label, base::printable(setting.value));
  }
  into.push_back(std::move(named));
  return base::ok_status();
}

Status read_hosts_of(const Setting& setting, std::vector<model::HostSpec>& into) {
  const auto content = base::read_file(setting.value, kMostHostBytes);
  if (!content.ok()) return content.status().with_context(setting.label);
  MUSTER_ASSIGN_OR_RETURN(into, parse_dmlc_hosts(*content, setting.value));
  if (into.empty()) return base::invalid_argument("{}: {} names no host", setting.label, setting.value);
  return base::ok_status();
}

Status read_where(const Settings& settings, SettingReader& read, JobRequest& request) {
  std::string launcher = "ssh";
  read.word("launcher", launcher);
  MUSTER_RETURN_IF_ERROR(read.status());
  if (launcher != "ssh" && launcher != "local") {
    return base::unimplemented(
        "--launcher {}: the hosts are those of -H or of the scheduler's job around; leave --launcher out", launcher);
  }
  std::vector<model::HostSpec>& hosts = request.job.placement.hosts;
  if (launcher == "local") {
    hosts = {{.name = "localhost"}};
    return base::ok_status();
  }
  read.custom("hostfile", [&](const Setting& setting) { return read_hosts_of(setting, hosts); });
  read.custom("server-hostfile",
              [&](const Setting& setting) { return read_hosts_of(setting, request.dmlc->server_hosts); });
  if (settings.find("server-hostfile") != nullptr && hosts.empty()) {
    return base::invalid_argument("--server-hostfile: name the hosts of the workers by -H as well");
  }
  return read.status();
}

Status read_own(const Settings& settings, JobRequest& request) {
  SettingReader read(settings);
  int workers = 0;
  int servers = -1;
  read.number("num-workers", 1, model::kMaxRanks, workers);
  read.number("num-servers", 0, model::kMaxRanks, servers);
  MUSTER_RETURN_IF_ERROR(read.status());
  if (workers == 0) return base::invalid_argument("how many workers? Say it with -n N");
  if (servers == 0) {
    return base::unimplemented("-s 0: rabit's tracker, for jobs without servers, is not served");
  }
  model::DmlcCounts& counts = request.dmlc.emplace().counts;
  counts.workers = workers;
  counts.servers = servers < 0 ? workers : servers;
  request.job.runtime = model::Runtime::kMxnet;
  request.job.placement.np = 0;
  request.job.placement.ranks_per_node = 0;
  MUSTER_RETURN_IF_ERROR(read_where(settings, read, request));
  read.custom("env",
              [&](const Setting& setting) { return add_variable(setting, true, request.job.environment.named); });
  read.custom("env-server",
              [&](const Setting& setting) { return add_variable(setting, false, counts.server_environment); });
  read.custom("env-worker",
              [&](const Setting& setting) { return add_variable(setting, false, counts.worker_environment); });
  read.custom("sync-dst-dir", [&](const Setting& setting) -> Status {
    if (!setting.value.starts_with('/')) {
      return base::invalid_argument("{} takes an absolute path, not '{}'", setting.label,
                                    base::printable(setting.value));
    }
    request.job.stages.push_back({.source = ".", .destination = setting.value});
    request.job.workdir = setting.value;
    return base::ok_status();
  });
  bool is_p3 = false;
  read.toggle("p3", is_p3);
  if (is_p3) {
    auto& named = request.job.environment.named;
    named.insert(named.end(), {"DMLC_PS_VAN_TYPE=p3", "DMLC_PS_WATER_MARK=10"});
  }
  return read.status();
}

Result<ParsedHvdrun> read_line(DmlcLine line, const base::Environment& environment, const ParseContext& context) {
  MUSTER_ASSIGN_OR_RETURN(const Settings ours,
                          gather_settings(line.ours, environment, context.system_config, hvdrun_flags()));
  Settings own;
  MUSTER_RETURN_IF_ERROR(own.add_layer(line.own));
  ParsedHvdrun parsed;
  MUSTER_ASSIGN_OR_RETURN(parsed.options, read_options(ours));
  MUSTER_RETURN_IF_ERROR(assume_template_node(ours, environment, parsed.options.dry_run));
  if (const Setting* setting = own.find("byteps-launch")) {
    return base::unimplemented("{}: {}", setting->label, setting->flag->answer_text);
  }
  MUSTER_RETURN_IF_ERROR(read_own(own, parsed.options.request));
  MUSTER_RETURN_IF_ERROR(check_programs(parsed.options.request));
  MUSTER_RETURN_IF_ERROR(check_restarts(parsed.options.request));
  if (line.command.empty() && parsed.options.dry_run.is_on) return parsed;
  if (line.command.empty()) {
    return base::invalid_argument("no command is given, as in muster dmlc -n 2 -H hosts \"python train.py\"");
  }
  // Run the command as one line in bash, because launch.py does so.
  parsed.options.request.job.command = {"bash", "-c", base::join(line.command, " ")};
  return parsed;
}

}  // namespace

Result<std::vector<model::HostSpec>> parse_dmlc_hosts(std::string_view content, std::string_view file_name) {
  std::vector<model::HostSpec> hosts;
  int number = 0;
  for (const std::string_view raw : base::split(content, '\n')) {
    ++number;
    const std::string_view line = base::trim(raw.substr(0, raw.find('#')));
    if (line.empty()) continue;
    const std::string_view word = line.substr(0, line.find_first_of(" \t"));
    model::HostSpec host;
    const std::size_t at = word.find('@');
    const std::string_view named = at == std::string_view::npos ? word : word.substr(at + 1);
    if (at != std::string_view::npos) host.user = word.substr(0, at);
    const std::size_t colon = named.find(':');
    host.name = named.substr(0, colon);
    const auto port =
        colon == std::string_view::npos ? std::optional<long>(0) : base::parse_decimal(named.substr(colon + 1), 65'535);
    const bool is_user = host.user.empty() ? at == std::string_view::npos : model::is_user_name(host.user);
    if (!port || !is_user || !model::is_host_name(host.name)) {
      return base::invalid_argument("{}:{}: '{}' is no host: write name, or name:SSHPORT", file_name, number,
                                    base::printable(word.substr(0, 100)));
    }
    host.port = static_cast<int>(*port);
    if (hosts.size() >= static_cast<std::size_t>(model::kMaxHosts)) {
      return base::invalid_argument("{}:{}: more than {} hosts", file_name, number, model::kMaxHosts);
    }
    hosts.push_back(std::move(host));
  }
  return hosts;
}

ParsedHvdrun parse_dmlc(const std::vector<std::string>& arguments, const base::Environment& environment,
                        const ParseContext& context) {
  const auto mistake = [&](const Status& status) {
    return answer(2, fmt::format("muster dmlc: {}\n", status.message()));
  };
  Result<DmlcLine> line = cut_line(arguments);
  if (!line.ok()) return mistake(line.status());
  if (line->help) return answer_help(*line->help, dmlc_doc(), context.look);
  Result<ParsedHvdrun> parsed = read_line(std::move(line).value(), environment, context);
  return parsed.ok() ? std::move(parsed).value() : mistake(parsed.status());
}

}  // namespace muster::cli::foreign
