// All of schema.h. Read make_schema() for the table of keys; the short functions before it build its rows.
// Checker applies the table to one file.
#include "job_templates/schema.h"

#include <algorithm>
#include <cctype>

#include "base/strings.h"

namespace muster::job_templates {
namespace {

using base::Status;
using Rules = std::vector<KeyRule>;

constexpr long kMost = 1'000'000;

KeyRule text(std::string_view key, std::string_view help) {
  return {.key = key, .takes = Takes::kText, .help = help};
}

KeyRule texts(std::string_view key, std::string_view help) {
  return {.key = key, .takes = Takes::kTexts, .help = help};
}

KeyRule number(std::string_view key, long min, long max, std::string_view help) {
  return {.key = key, .takes = Takes::kNumber, .help = help, .min = min, .max = max};
}

KeyRule word(std::string_view key, std::vector<std::string_view> words, std::string_view help) {
  return {.key = key, .takes = Takes::kWord, .help = help, .words = std::move(words)};
}

KeyRule toggle(std::string_view key, std::string_view help) {
  return {.key = key, .takes = Takes::kToggle, .help = help};
}

KeyRule keys(std::string_view key, Rules below, std::string_view help) {
  return {.key = key, .takes = Takes::kKeys, .help = help, .below = std::move(below)};
}

KeyRule named(std::string_view key, std::string_view name_is_a, KeyRule each, std::string_view help) {
  return {.key = key, .takes = Takes::kNamed, .help = help, .below = {std::move(each)}, .name_is_a = name_is_a};
}

KeyRule parameter_rule() {
  return keys(
      "",
      {word("type", {"string", "int", "time", "choice", "bool"}, "The type of its value."),
       text("default",
            "The value if the user gives none. Without a default, lines that name the parameter are left out."),
       number("min", -kMost, kMost, "The lowest value of an int."),
       number("max", -kMost, kMost, "The highest value of an int."), texts("choices", "The values of a choice."),
       text("help", "Its meaning, in one sentence."), toggle("required", "If true, rendering fails without a value.")},
      "");
}

Rules node_rules() {
  return {text("names", "A host name with {n} for its number, or {n:05} with zeros. Invented hosts are named so."),
          number("sockets", 1, 64, "Sockets."),
          number("cores", 1, 1024, "Cores per socket."),
          number("threads", 1, 8, "Hardware threads per core."),
          number("numa", 1, 64, "NUMA nodes per socket."),
          {.key = "reserved_cores",
           .takes = Takes::kNumbers,
           .help = "Cores that no rank gets, each named by its first hardware thread.",
           .min = 0,
           .max = 65535},
          number("gpus", 0, 64, "GPUs."),
          word("gpu_vendor", {"nvidia", "amd", "intel"}, "The maker of the GPUs."),
          number("gpu_tiles", 1, 16, "Tiles per GPU."),
          texts("gpu_cpus", "The CPUs nearest to each GPU, as 24-31,56-63."),
          texts("nics", "Interfaces of the fast network; documentation only.")};
}

Rules launch_rules() {
  return {text("ranks_per_node", "Ranks on every host."),
          text("map_by", "slot or node."),
          toggle("oversubscribe", "Allow more ranks than slots."),
          text("hosts", "The hosts, if no scheduler provides them."),
          text("hostfile", "A file with the hosts."),
          text("bootstrap", "How agents are started: ssh, srun, aprun, …"),
          text("bootstrap_cmd", "The command that starts one, with {{host}} and {{cmd}}."),
          text("agent_link", "auto, ssh or dial."),
          text("start_timeout", "How long hosts may take to start."),
          text("network", "The network in which the ranks talk, as 10.1.0.0/16."),
          texts("network_interfaces", "Interfaces for the ranks."),
          text("bind_to", "The cores of a rank."),
          text("depth", "CPUs of a rank with bind_to depth."),
          text("hyperthreads", "Hardware threads to use per core."),
          texts("reserve_cores", "Replaces node.reserved_cores."),
          text("gpu_bind", "order, one, tile or none."),
          text("gpu_order", "reverse, round-robin, or a list."),
          text("gpu_tiles", "Intel GPUs and their tiles, as 6x2. Replaces the values of node."),
          text("container", "The image in which the ranks run."),
          text("container_args", "More options for the container program's exec."),
          text("container_program", "The container program, if not apptainer or singularity."),
          text("kill_grace", "The time between SIGTERM and SIGKILL."),
          text("on_exit", "What ends the job."),
          text("runtime", "The kind of program: auto, torch, horovod, mpi, mxnet, jax, tensorflow or none."),
          text("timeout", "The longest time that the job may run."),
          text("signal", "A signal before the allocation ends, as USR1@120."),
          text("spare", "Hosts that replace ones which fail the check."),
          text("health_check", "The check of the hosts before the start: off, quick or full.")};
}

KeyRule make_schema() {
  KeyRule variable = text("", "");
  KeyRule role = keys("",
                      {text("ranks", "The number of ranks. Exactly one role has no number and gets the rest."),
                       named("environment", "variable", variable, "Variables of its ranks.")},
                      "");
  return keys(
      "",
      {text("help", "The purpose of the template. Lists show its first line."),
       texts("extends", "The templates that this one extends."),
       word("scheduler", {"none", "cobalt", "pbs", "slurm", "flux", "lsf"},
            "The scheduler whose directives begin the script."),
       text("submit", "The program that takes the script, if not the scheduler's usual one."),
       text("shell", "The script's first line, without #!."),
       named("parameters", "parameter", parameter_rule(), "The options that the template adds to the command line."),
       texts("directives", "Options of the scheduler. An option is left out if a parameter in it has no value."),
       keys("node", node_rules(), "The hardware of a host."),
       keys("launch", launch_rules(), "hvdrun's options, with '_' for '-'."),
       texts("modules", "Modules to load before the job. 'use DIR' adds a folder of modules."),
       named("environment", "variable", variable, "Variables of the ranks."),
       text("proxy", "The proxy for http and https."), text("no_proxy", "Hosts that are reached without the proxy."),
       keys("pre", {texts("job", "Commands before the job, once."), texts("node", "The same, once on every host.")},
            "Commands before the job."),
       keys("post", {texts("job", "Commands after the job, once."), texts("node", "The same, once on every host.")},
            "Commands after the job."),
       named("roles", "role", role, "The roles of the ranks, in this order.")},
      "");
}

bool is_name(std::string_view name, std::string_view kind) {
  if (kind == "variable") {
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name.front())) != 0) return false;
    return std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
  }
  if (name.empty() || std::islower(static_cast<unsigned char>(name.front())) == 0) return false;
  return std::ranges::all_of(name,
                             [](unsigned char c) { return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '-'; });
}

class Checker {
 public:
  Status check_value(const Piece& value, const KeyRule& rule, const std::string& path) const {
    if (value.kind == Piece::Kind::kNull) return base::ok_status();
    switch (rule.takes) {
      case Takes::kKeys:
      case Takes::kNamed:
        if (value.kind != Piece::Kind::kMap) return fail(value, path, "must hold keys, not a value");
        return rule.takes == Takes::kKeys ? check_keys(value, rule, path) : check_named(value, rule, path);
      case Takes::kTexts:
      case Takes::kNumbers:
        return check_list(value, rule, path);
      case Takes::kText:
      case Takes::kNumber:
      case Takes::kToggle:
      case Takes::kWord:
        break;
    }
    if (value.kind != Piece::Kind::kText) return fail(value, path, "must be one value, not a list or keys");
    return check_text(value, rule, path);
  }

 private:
  static Status fail(const Piece& at, const std::string& path, std::string_view problem) {
    return error_at(at.place, fmt::format("{} {}", path, problem));
  }

  static Status check_text(const Piece& value, const KeyRule& rule, const std::string& path) {
    if (value.text.find('\0') != std::string::npos) return fail(value, path, "holds a NUL byte");
    if (rule.takes == Takes::kToggle && !parse_switch(value.text)) {
      return fail(value, path, fmt::format("must be true or false, not '{}'", base::printable(value.text)));
    }
    if (rule.takes == Takes::kWord && std::ranges::find(rule.words, value.text) == rule.words.end()) {
      const std::vector<std::string> words(rule.words.begin(), rule.words.end());
      const auto nearest = base::nearest_word(value.text, words);
      return fail(value, path,
                  fmt::format("must be one of {}, not '{}'{}", base::join(words, ", "), base::printable(value.text),
                              nearest ? fmt::format("; did you mean {}?", *nearest) : ""));
    }
    if (rule.takes != Takes::kNumber && rule.takes != Takes::kNumbers) return base::ok_status();
    const bool is_negative = value.text.starts_with('-');
    const auto number = base::parse_decimal(std::string_view(value.text).substr(is_negative ? 1 : 0), kMost);
    const long signed_number = is_negative ? -number.value_or(0) : number.value_or(0);
    if (!number || signed_number < rule.min || signed_number > rule.max) {
      return fail(value, path,
                  fmt::format("must be a whole number from {} to {}, not '{}'", rule.min, rule.max,
                              base::printable(value.text)));
    }
    return base::ok_status();
  }

  static Status check_list(const Piece& value, const KeyRule& rule, const std::string& path) {
    if (value.kind == Piece::Kind::kMap) return fail(value, path, "takes a list, not keys");
    if (value.kind == Piece::Kind::kText) return check_text(value, rule, path);
    for (const Piece& item : value.items) {
      if (item.kind != Piece::Kind::kText) return fail(item, path, "takes a list of values");
      MUSTER_RETURN_IF_ERROR(check_text(item, rule, path));
    }
    return base::ok_status();
  }

  Status check_keys(const Piece& map, const KeyRule& rule, const std::string& path) const {
    for (std::size_t i = 0; i < map.items.size(); ++i) {
      const Piece::Key& key = map.keys[i];
      const bool adds = key.text.ends_with('+');
      const std::string name = adds ? key.text.substr(0, key.text.size() - 1) : key.text;
      const auto found = std::ranges::find(rule.below, name, &KeyRule::key);
      if (found == rule.below.end()) return unknown_key(key, rule, path);
      const std::string below = path.empty() ? name : path + "." + name;
      if (adds && found->takes != Takes::kTexts && found->takes != Takes::kNumbers) {
        return error_at(key.place, fmt::format("{} is not a list: write {} without '+'", below, name));
      }
      if (adds && map.items[i].kind != Piece::Kind::kList) return fail(map.items[i], below + "+", "takes a list");
      MUSTER_RETURN_IF_ERROR(check_value(map.items[i], *found, below));
    }
    return base::ok_status();
  }

  Status check_named(const Piece& map, const KeyRule& rule, const std::string& path) const {
    for (std::size_t i = 0; i < map.items.size(); ++i) {
      const Piece::Key& key = map.keys[i];
      if (!is_name(key.text, rule.name_is_a)) {
        return error_at(
            key.place,
            fmt::format("'{}' is not the name of a {}: write {}", base::printable(key.text), rule.name_is_a,
                        rule.name_is_a == "variable" ? "letters, digits and '_'" : "small letters, digits and '-'"));
      }
      MUSTER_RETURN_IF_ERROR(check_value(map.items[i], rule.below.front(), path + "." + key.text));
    }
    return base::ok_status();
  }

  static Status unknown_key(const Piece::Key& key, const KeyRule& rule, const std::string& path) {
    std::vector<std::string> known;
    for (const KeyRule& each : rule.below) known.emplace_back(each.key);
    std::string hint;
    if (const auto nearest = base::nearest_word(key.text, known)) {
      hint = fmt::format("; did you mean {}?", *nearest);
    } else if (const std::string elsewhere = path_of(key.text, template_schema(), ""); !elsewhere.empty()) {
      hint = fmt::format("; did you mean {}?", elsewhere);
    }
    return error_at(key.place, fmt::format("unknown key '{}'{}{}", base::printable(key.text),
                                           path.empty() ? "" : " in " + path, hint));
  }

  // Returns the path of a key of this name elsewhere in the schema ("launch.depth"); empty if there is none.
  static std::string path_of(std::string_view key, const KeyRule& rule, const std::string& path) {
    if (rule.takes != Takes::kKeys) return "";
    for (const KeyRule& each : rule.below) {
      const std::string below = path.empty() ? std::string(each.key) : fmt::format("{}.{}", path, each.key);
      if (each.key == key) return below;
      if (std::string found = path_of(key, each, below); !found.empty()) return found;
    }
    return "";
  }
};

}  // namespace

const KeyRule& template_schema() {
  static const KeyRule kSchema = make_schema();
  return kSchema;
}

std::optional<bool> parse_switch(std::string_view text) {
  if (text == "true" || text == "yes" || text == "on") return true;
  if (text == "false" || text == "no" || text == "off") return false;
  return std::nullopt;
}

Status check_schema(const Piece& root) {
  return Checker().check_value(root, template_schema(), "");
}

}  // namespace muster::job_templates
