// All of template.h. Read read_template() at the end first: it calls one read_ function for each part of a template.
// check_texts() and check_shell() find mistakes that only the merged template shows.
#include "job_templates/template.h"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "base/cpu_set.h"
#include "base/strings.h"
#include "job_templates/parameters.h"
#include "job_templates/schema.h"

namespace muster::job_templates {
namespace {

using base::Result;
using base::Status;

constexpr std::string_view kSchedulers[] = {"none", "cobalt", "pbs", "slurm", "flux", "lsf"};
constexpr std::string_view kTypes[] = {"string", "int", "time", "choice", "bool"};
constexpr std::string_view kMakers[] = {"nvidia", "amd", "intel"};

// check_schema() guarantees that `word` is one of `words`.
template <typename T, std::size_t N>
T meaning(const std::string_view (&words)[N], std::string_view word) {
  const auto* found = std::ranges::find(words, word);
  MUSTER_CHECK(found != std::end(words));
  return static_cast<T>(found - std::begin(words));
}

std::string text_of(const Piece& map, std::string_view key, std::string_view standard = {}) {
  const Piece* piece = map.find(key);
  return piece == nullptr ? std::string(standard) : piece->text;
}

long number_of(const Piece& map, std::string_view key, long standard) {
  const Piece* piece = map.find(key);
  if (piece == nullptr) return standard;
  const bool is_negative = piece->text.starts_with('-');
  const long number =
      base::parse_decimal(std::string_view(piece->text).substr(is_negative ? 1 : 0), kMostNumber).value_or(standard);
  return is_negative ? -number : number;
}

std::optional<Text> some_text(const Piece& map, std::string_view key) {
  const Piece* piece = map.find(key);
  return piece == nullptr ? std::nullopt : std::optional(Text{piece->text, piece->place});
}

// Returns the texts of a list. A single value counts as a list of one.
std::vector<Text> texts_of(const Piece& map, std::string_view key) {
  const Piece* piece = map.find(key);
  if (piece == nullptr) return {};
  if (piece->kind == Piece::Kind::kText) return {{piece->text, piece->place}};
  std::vector<Text> texts;
  for (const Piece& item : piece->items) texts.push_back({item.text, item.place});
  return texts;
}

std::vector<std::string> words_of(const Piece& map, std::string_view key) {
  std::vector<std::string> words;
  for (Text& text : texts_of(map, key)) words.push_back(std::move(text.text));
  return words;
}

std::vector<NamedText> named_texts(const Piece& map, std::string_view key) {
  std::vector<NamedText> result;
  const Piece* piece = map.find(key);
  for (std::size_t i = 0; piece != nullptr && i < piece->items.size(); ++i) {
    result.push_back({piece->keys[i].text, {piece->items[i].text, piece->items[i].place}});
  }
  return result;
}

Result<Parameter> read_parameter(const Piece::Key& key, const Piece& map) {
  const auto fail = [&](std::string_view problem) {
    return error_at(key.place, fmt::format("parameters.{} {}", key.text, problem));
  };
  Parameter parameter;
  parameter.name = key.text;
  const Piece* type = map.find("type");
  if (type == nullptr) return fail("has no type: write string, int, time, choice or bool");
  parameter.type = meaning<ParameterType>(kTypes, type->text);
  parameter.choices = words_of(map, "choices");
  parameter.help = text_of(map, "help");
  parameter.is_required = parse_switch(text_of(map, "required", "false")).value_or(false);
  parameter.min = number_of(map, "min", 0);
  parameter.max = number_of(map, "max", kMostNumber);
  if (parameter.max < parameter.min) return fail("has a min above its max");
  const bool is_choice = parameter.type == ParameterType::kChoice;
  if (is_choice == parameter.choices.empty())
    return fail(is_choice ? "needs choices" : "has choices, but its type is not choice");
  const bool has_bounds = map.find("min") != nullptr || map.find("max") != nullptr;
  if (has_bounds && parameter.type != ParameterType::kInt) return fail("has bounds, but its type is not int");
  if (parameter.help.find('\n') != std::string::npos) return fail("has a help of several lines: write one sentence");
  if (const Piece* standard = map.find("default")) {
    parameter.standard = standard->text;
    MUSTER_RETURN_IF_ERROR(
        check_value(parameter, standard->text, fmt::format("{}: its default", to_string(standard->place))));
  }
  return parameter;
}

Status read_gpu_cpus(const Piece& map, NodeDescription& node) {
  for (const Text& text : texts_of(map, "gpu_cpus")) {
    const auto cpus = base::parse_number_list(text.text, base::kMaxCpu);
    if (!cpus || cpus->empty()) {
      return error_at(text.place,
                      fmt::format("'{}' is not a list of CPUs: write it as 24-31,56-63", base::printable(text.text)));
    }
    node.gpu_cpus.push_back(*cpus);
  }
  if (!node.gpu_cpus.empty() && node.gpu_cpus.size() != static_cast<std::size_t>(node.gpus)) {
    return error_at(map.find("gpu_cpus")->place,
                    fmt::format("node.gpu_cpus has {} entries for {} GPUs", node.gpu_cpus.size(), node.gpus));
  }
  return base::ok_status();
}

Result<NodeDescription> read_node(const Piece& map) {
  NodeDescription node;
  node.names = text_of(map, "names");
  node.sockets = static_cast<int>(number_of(map, "sockets", 0));
  node.cores = static_cast<int>(number_of(map, "cores", 0));
  node.threads = static_cast<int>(number_of(map, "threads", 1));
  node.numa = static_cast<int>(number_of(map, "numa", 1));
  node.gpus = static_cast<int>(number_of(map, "gpus", 0));
  node.gpu_maker = meaning<GpuMaker>(kMakers, text_of(map, "gpu_vendor", "nvidia"));
  node.gpu_tiles = static_cast<int>(number_of(map, "gpu_tiles", 1));
  node.nics = words_of(map, "nics");
  if ((node.sockets > 0) != (node.cores > 0)) return error_at(map.place, "node needs both sockets and cores");
  if (node.cores % node.numa != 0) return error_at(map.place, "node.cores must be a multiple of node.numa");
  for (const Text& core : texts_of(map, "reserved_cores")) {
    const auto number = base::parse_decimal(core.text, base::kMaxCpu);
    if (!number || *number >= static_cast<long>(node.sockets) * node.cores) {
      return error_at(core.place, fmt::format("the host has no core {}", base::printable(core.text)));
    }
    node.reserved_cores.push_back(static_cast<int>(*number));
  }
  MUSTER_RETURN_IF_ERROR(read_gpu_cpus(map, node));
  return node;
}

std::vector<NamedText> read_launch(const Piece& map) {
  std::vector<NamedText> launch;
  for (std::size_t i = 0; i < map.items.size(); ++i) {
    const Piece& item = map.items[i];
    std::string name = map.keys[i].text;
    std::ranges::replace(name, '_', '-');
    std::vector<std::string> words;
    for (const Piece& word : item.items) words.push_back(word.text);
    std::string text = item.kind == Piece::Kind::kList ? base::join(words, ",") : item.text;
    if (!text.empty()) launch.push_back({std::move(name), {std::move(text), item.place}});
  }
  return launch;
}

Commands read_commands(const Piece& root, std::string_view key) {
  const Piece* map = root.find(key);
  return map == nullptr ? Commands{} : Commands{texts_of(*map, "job"), texts_of(*map, "node")};
}

Result<std::vector<Role>> read_roles(const Piece& map) {
  std::vector<Role> roles;
  bool has_rest = false;
  for (std::size_t i = 0; i < map.items.size(); ++i) {
    Role& role = roles.emplace_back();
    role.name = map.keys[i].text;
    role.ranks = some_text(map.items[i], "ranks");
    role.environment = named_texts(map.items[i], "environment");
    if (!role.ranks && has_rest) {
      return error_at(map.keys[i].place,
                      fmt::format("roles.{} needs ranks: only one role may get the rest", role.name));
    }
    has_rest = has_rest || !role.ranks;
  }
  if (!roles.empty() && !has_rest) return error_at(map.place, "one role must get the rest: leave its ranks out");
  return roles;
}

// Checks that texts name only parameters of this template.
Status check_texts(const Template& job_template) {
  const auto check = [&](const Text& text, const std::vector<std::string>& also_known = {}) {
    return parameters_in(text, job_template, also_known).status();
  };
  for (const Text& text : job_template.directives) {
    MUSTER_RETURN_IF_ERROR(check(text));
    const bool is_line = std::ranges::all_of(text.text, [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
    if (!is_line || text.text.empty()) return error_at(text.place, "a directive must be one line of text");
  }
  if (job_template.scheduler == Scheduler::kNone && !job_template.directives.empty()) {
    return error_at(job_template.directives.front().place, "directives need a scheduler: write scheduler: slurm, …");
  }
  for (const auto* list : {&job_template.launch, &job_template.environment}) {
    for (const NamedText& each : *list) MUSTER_RETURN_IF_ERROR(check(each.value));
  }
  for (const auto& text : {job_template.proxy, job_template.no_proxy}) {
    if (text) MUSTER_RETURN_IF_ERROR(check(*text));
  }
  for (const Role& role : job_template.roles) {
    if (role.ranks) MUSTER_RETURN_IF_ERROR(check(*role.ranks));
    for (const NamedText& each : role.environment) {
      MUSTER_RETURN_IF_ERROR(check(each.value, {"rank", "size", "rest", "local_rank", "master_addr", "master_port"}));
    }
  }
  return base::ok_status();
}

Status check_shell(const Template& job_template, const Piece& merged) {
  const std::string_view shell = job_template.shell;
  if (shell == "/usr/bin/env bash") return base::ok_status();
  // The kernel passes everything behind the program as one word.
  const std::string_view program = shell.substr(0, shell.find(' '));
  const std::string_view option = shell.substr(program.size());
  const bool is_option =
      option.size() > 2 && option.starts_with(" -") &&
      std::ranges::all_of(option.substr(2), [](unsigned char c) { return c == '-' || std::isalpha(c) != 0; });
  const bool is_known = program == "/bin/bash" || program == "/usr/bin/bash";
  if (is_known && (option.empty() || is_option)) return base::ok_status();
  return error_at(
      merged.find("shell")->place,
      "shell must be /bin/bash or /usr/bin/bash with at most one option, as '/bin/bash -l', or /usr/bin/env bash");
}

}  // namespace

std::string_view display_name(Scheduler scheduler) {
  constexpr std::string_view kNames[] = {"", "Cobalt", "PBS", "Slurm", "Flux", "LSF"};
  return kNames[static_cast<std::size_t>(scheduler)];
}

const Parameter* Template::parameter(std::string_view wanted) const {
  const auto found = std::ranges::find(parameters, wanted, &Parameter::name);
  return found == parameters.end() ? nullptr : &*found;
}

Result<Template> read_template(Piece merged, const std::string& name) {
  Template result;
  result.name = name;
  result.help = std::string(base::trim(text_of(merged, "help")));
  result.scheduler = meaning<Scheduler>(kSchedulers, text_of(merged, "scheduler", "none"));
  result.submit = text_of(merged, "submit");
  result.shell = text_of(merged, "shell", "/bin/bash");
  if (const Piece* parameters = merged.find("parameters")) {
    for (std::size_t i = 0; i < parameters->items.size(); ++i) {
      MUSTER_ASSIGN_OR_RETURN(Parameter parameter, read_parameter(parameters->keys[i], parameters->items[i]));
      result.parameters.push_back(std::move(parameter));
    }
  }
  result.directives = texts_of(merged, "directives");
  if (const Piece* node = merged.find("node")) {
    MUSTER_ASSIGN_OR_RETURN(result.node, read_node(*node));
  }
  if (const Piece* launch = merged.find("launch")) result.launch = read_launch(*launch);
  result.modules = words_of(merged, "modules");
  result.environment = named_texts(merged, "environment");
  result.proxy = some_text(merged, "proxy");
  result.no_proxy = some_text(merged, "no_proxy");
  result.pre = read_commands(merged, "pre");
  result.post = read_commands(merged, "post");
  if (const Piece* roles = merged.find("roles")) {
    MUSTER_ASSIGN_OR_RETURN(result.roles, read_roles(*roles));
  }
  MUSTER_RETURN_IF_ERROR(check_texts(result));
  MUSTER_RETURN_IF_ERROR(check_shell(result, merged));
  result.merged = std::move(merged);
  return result;
}

}  // namespace muster::job_templates
