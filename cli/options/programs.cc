// This file cuts a command line at its ":" words and makes a role of each program.
// Read from the end: read_programs(), then cut_programs() and role_of().
#include "cli/options/programs.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>

#include "base/strings.h"
#include "cli/help/base_names.h"
#include "cli/options/config_file.h"
#include "cli/options/role_file.h"
#include "cli/options/setting_reader.h"

namespace muster::cli::inline options {
namespace {

using Words = std::vector<std::string>;

constexpr std::string_view kOwnOptions[] = {"num-proc", "hosts", "env", "wdir"};

bool is_of_one_program(const ParsedOption& option) {
  return std::ranges::find(kOwnOptions, option.flag->name) != std::end(kOwnOptions);
}

// Returns the index of the ":" before the next program, or the number of words if there is none.
std::size_t find_next(const Words& command, const FlagTable& table) {
  for (std::size_t i = 1; i + 1 < command.size(); ++i) {
    if (command[i] == ":" && is_option(command[i + 1], table)) return i;
  }
  return command.size();
}

struct Program {
  std::vector<ParsedOption> options;
  Words command;
};

Result<std::vector<Program>> cut_programs(CommandLine& line, const FlagTable& table) {
  std::vector<Program> programs;
  const std::size_t first_end = line.is_verbatim ? line.command.size() : find_next(line.command, table);
  if (first_end == line.command.size()) return programs;
  Program& first = programs.emplace_back();
  std::ranges::copy_if(line.options, std::back_inserter(first.options), is_of_one_program);
  std::erase_if(line.options, is_of_one_program);
  Words rest(line.command.begin() + static_cast<std::ptrdiff_t>(first_end) + 1, line.command.end());
  first.command.assign(line.command.begin(), line.command.begin() + static_cast<std::ptrdiff_t>(first_end));
  line.command.clear();
  while (!rest.empty()) {
    MUSTER_ASSIGN_OR_RETURN(CommandLine part, split_command_line(rest, table));
    for (const ParsedOption& option : part.options) {
      if (is_of_one_program(option)) continue;
      return base::invalid_argument("{} is for all programs of the line: put it before the first command",
                                    option.spelling);
    }
    const std::size_t end = part.is_verbatim ? part.command.size() : find_next(part.command, table);
    const auto cut = part.command.begin() + static_cast<std::ptrdiff_t>(end);
    programs.push_back({std::move(part.options), Words(part.command.begin(), cut)});
    rest = end == part.command.size() ? Words() : Words(cut + 1, part.command.end());
  }
  return programs;
}

// Names a role after its program: "./bin/solver" becomes "solver", a second one "solver-2".
std::string name_of(const std::string& program, std::set<std::string>& taken) {
  std::string name = program.substr(program.rfind('/') + 1);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_') c = '-';
  }
  constexpr std::size_t kLongest = 48;
  name = name.substr(std::min(name.find_first_not_of(".-"), name.size()), kLongest);
  if (name.empty()) name = "program";
  std::string unique = name;
  for (int count = 2; !taken.insert(unique).second; ++count) unique = fmt::format("{}-{}", name, count);
  return unique;
}

Result<model::Role> role_of(Program program, std::set<std::string>& taken) {
  if (program.command.empty() || program.command.front().empty()) {
    return base::invalid_argument("a program is missing beside the ':'");
  }
  CommandLine line;
  line.options = std::move(program.options);
  Settings settings;
  MUSTER_RETURN_IF_ERROR(settings.add_layer(settings_of(line)));
  model::Role role{.np = 0};
  SettingReader read(settings);
  read.custom("hosts", [&](const Setting& setting) -> Status {
    MUSTER_ASSIGN_OR_RETURN(role.hosts, model::parse_host_list(setting.value, setting.label));
    return base::ok_status();
  });
  read.number("num-proc", 1, model::kMaxRanks, role.np);
  read.custom("env", [&](const Setting& setting) -> Status {
    MUSTER_RETURN_IF_ERROR(check_variable(setting.value).with_context(setting.label));
    role.environment.push_back(setting.value);
    return base::ok_status();
  });
  read.text("wdir", role.workdir);
  MUSTER_RETURN_IF_ERROR(read.status());
  if (role.np == 0 && role.hosts.empty()) {
    return base::invalid_argument("{} has no number of ranks: put -np N before it, as in -np 1 ./a : -np 4 ./b",
                                  base::printable(program.command.front()));
  }
  if (role.np == 0) role.np = slots_of(role.hosts);
  role.name = name_of(program.command.front(), taken);
  role.command = std::move(program.command);
  return role;
}

}  // namespace

int slots_of(const std::vector<model::HostSpec>& hosts) {
  long slots = 0;
  for (const model::HostSpec& host : hosts) slots += host.slots.value_or(1);
  return static_cast<int>(std::min<long>(slots, model::kMaxRanks));
}

bool has_programs(const CommandLine& line, const FlagTable& table) {
  return !line.is_verbatim && find_next(line.command, table) != line.command.size();
}

Result<std::vector<model::Role>> read_programs(CommandLine& line, const base::Environment& environment,
                                               const FlagTable& table) {
  MUSTER_ASSIGN_OR_RETURN(std::vector<Program> programs, cut_programs(line, table));
  std::vector<model::Role> roles;
  std::set<std::string> names;
  for (Program& program : programs) {
    MUSTER_ASSIGN_OR_RETURN(model::Role role, role_of(std::move(program), names));
    roles.push_back(std::move(role));
  }
  const auto file = named_config(line, environment, table);
  if (!file) return roles;
  MUSTER_ASSIGN_OR_RETURN(std::vector<model::Role> of_file, read_role_file(*file));
  if (of_file.empty()) return roles;
  if (!roles.empty() || !line.command.empty()) {
    return base::invalid_argument("{} has roles with commands of their own: leave the command out", *file);
  }
  return of_file;
}

Status set_roles(std::vector<model::Role> roles, const Settings& settings, model::JobSpec& job) {
  if (roles.empty()) return base::ok_status();
  if (const Setting* setting = settings.find("num-proc")) {
    return base::invalid_argument("{}: each of the job's programs has its own number of ranks", setting->label);
  }
  MUSTER_RETURN_IF_ERROR(model::check_roles(roles));
  job.placement.np = model::count_ranks(roles);
  job.roles = std::move(roles);
  return base::ok_status();
}

}  // namespace muster::cli::options
