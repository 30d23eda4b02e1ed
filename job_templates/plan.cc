// All of plan.h. Read plan_launch() near the end first: it calls one function for each part of the plan.
// The functions from quote_for_rank() to role_prefix() write the shell code that gives each rank its role.
#include "job_templates/plan.h"

#include <algorithm>
#include <iterator>

#include "base/strings.h"
#include "job_templates/schema.h"

namespace muster::job_templates {
namespace {

using base::Result;
using base::Status;

constexpr std::string_view kSwitches[] = {"oversubscribe"};
constexpr std::string_view kReach[] = {"hosts",         "hostfile",          "spare",   "health-check",
                                       "bootstrap",     "bootstrap-cmd",     "network", "agent-link",
                                       "start-timeout", "network-interfaces"};
constexpr long kMostRanks = 1'000'000;

// A value that is known only in a rank.
struct RankValue {
  std::string_view name;
  std::string_view shell;  // the rank's shell expands it
};
constexpr RankValue kRankValues[] = {{"rank", "$MUSTER_RANK"},
                                     {"local_rank", "$MUSTER_LOCAL_RANK"},
                                     {"size", "$MUSTER_SIZE"},
                                     {"master_addr", "$MASTER_ADDR"},
                                     {"master_port", "$MASTER_PORT"}};

// Quotes everything except names, which the rank's shell expands.
std::string quote_for_rank(const std::vector<FilledPiece>& pieces, long fixed_ranks) {
  std::string result;
  std::string literal;
  const auto flush = [&] {
    if (!literal.empty()) result += base::shell_quote(literal);
    literal.clear();
  };
  for (const FilledPiece& piece : pieces) {
    if (!piece.is_name) {
      literal += piece.text;
      continue;
    }
    flush();
    const auto* found = std::ranges::find(kRankValues, piece.text, &RankValue::name);
    result += found != std::end(kRankValues) ? fmt::format("\"{}\"", found->shell)
                                             : fmt::format("\"$((MUSTER_SIZE - {}))\"", fixed_ranks);  // {rest}
  }
  flush();
  return result.empty() ? "''" : result;
}

struct RoleRanks {
  const Role* role;
  long count;  // -1 if the role gets the rest
};

Result<std::vector<RoleRanks>> count_roles(const Values& values) {
  std::vector<RoleRanks> counts;
  for (const Role& role : values.of().roles) {
    if (!role.ranks) {
      counts.push_back({&role, -1});
      continue;
    }
    MUSTER_ASSIGN_OR_RETURN(const auto text, fill(*role.ranks, values));
    const auto count = base::parse_decimal(text.value_or("0"), kMostRanks);
    if (!count) {
      return error_at(role.ranks->place, fmt::format("roles.{}.ranks must be a whole number, not '{}'", role.name,
                                                     base::printable(*text)));
    }
    counts.push_back({&role, *count});
  }
  return counts;
}

Result<std::string> role_exports(const Role& role, const Values& values, long fixed_ranks) {
  std::string text;
  for (const NamedText& variable : role.environment) {
    MUSTER_ASSIGN_OR_RETURN(const auto value, fill_pieces(variable.value, values));
    if (value) text += fmt::format("  export {}={}\n", variable.name, quote_for_rank(*value, fixed_ranks));
  }
  return text.empty() ? std::string("  :\n") : text;
}

// Returns for each role a shell test that selects its ranks. The test is empty for the role that gets the remaining
// ranks. Roles before that role count from rank 0, roles after it from the last rank.
std::vector<std::pair<const Role*, std::string>> role_tests(const std::vector<RoleRanks>& roles) {
  std::vector<std::pair<const Role*, std::string>> tests;
  const auto rest = std::ranges::find(roles, -1, &RoleRanks::count);
  long sum = 0;
  for (auto role = roles.begin(); role != rest; ++role) {
    tests.emplace_back(role->role, fmt::format("[ \"$MUSTER_RANK\" -lt {} ]", sum += role->count));
  }
  sum = 0;
  for (auto role = roles.end(); role != rest + 1;) {
    --role;
    tests.emplace_back(role->role,
                       fmt::format("[ \"$MUSTER_RANK\" -ge \"$((MUSTER_SIZE - {}))\" ]", sum += role->count));
  }
  tests.emplace_back(rest->role, "");
  return tests;
}

// Returns shell code by which each rank sets the variables of its role and then executes the command.
Result<std::vector<std::string>> role_prefix(const Values& values) {
  if (values.of().roles.empty()) return std::vector<std::string>();
  MUSTER_ASSIGN_OR_RETURN(const std::vector<RoleRanks> roles, count_roles(values));
  long fixed = 0;
  for (const RoleRanks& role : roles) fixed += std::max(role.count, 0L);
  std::string script = fmt::format(
      "\nif [ \"$MUSTER_SIZE\" -le {} ]; then\n  echo {} >&2\n  exit 2\nfi\n", fixed,
      base::shell_quote(fmt::format("{} needs more than {} ranks", base::printable(values.of().name), fixed)));
  std::string_view word = "if";
  for (const auto& [role, test] : role_tests(roles)) {
    MUSTER_ASSIGN_OR_RETURN(const std::string exports, role_exports(*role, values, fixed));
    script += test.empty() ? fmt::format("{}  # {}\n", word == "if" ? "if true; then" : "else", role->name)
                           : fmt::format("{} {}; then  # {}\n", word, test, role->name);
    script += exports;
    word = "elif";
  }
  script += "fi\nexec \"$@\"\n";
  return std::vector<std::string>{"sh", "-c", script, "muster-role"};
}

Status add_option(const NamedText& option, const Values& values, LaunchPlan& plan) {
  MUSTER_ASSIGN_OR_RETURN(auto value, fill(option.value, values, {.times_in_seconds = true}));
  if (!value || value->empty()) return base::ok_status();
  const bool is_switch = std::ranges::find(kSwitches, option.name) != std::end(kSwitches);
  if (is_switch) value = parse_switch(*value).value_or(false) ? "true" : "false";
  plan.options.push_back({option.name, *std::move(value), is_switch, option.value.place});
  return base::ok_status();
}

bool sets(const LaunchPlan& plan, std::string_view option) {
  return std::ranges::find(plan.options, option, &LaunchOption::name) != plan.options.end();
}

// Returns whether the user has set `option` through one of its parameters.
bool is_given(std::string_view option, const Values& values) {
  const std::vector<NamedText>& launch = values.of().launch;
  const auto found = std::ranges::find(launch, option, &NamedText::name);
  if (found == launch.end()) return false;
  const auto parameters = parameters_in(found->value, values.of());
  return parameters.ok() &&
         std::ranges::any_of(*parameters, [&](const std::string& name) { return values.is_given(name); });
}

// Drops the template's CPU lists if the user asked for no GPUs and gave no bind-to. A template that itself asks for no
// GPUs keeps its lists.
void leave_lists_out(const Values& values, LaunchPlan& plan) {
  const auto gpu_bind = std::ranges::find(plan.options, "gpu-bind", &LaunchOption::name);
  const bool has_none = gpu_bind != plan.options.end() && gpu_bind->value == "none";
  if (has_none && is_given("gpu-bind", values) && !is_given("bind-to", values)) plan.leave_out(kCpuLists);
}

// Adds options that follow from the node, unless the template sets them. gpu-tiles is needed because kernels do not
// report the tiles of Intel's GPUs.
void add_node_options(const NodeDescription& node, LaunchPlan& plan) {
  if (!node.reserved_cores.empty() && !sets(plan, "reserve-cores")) {
    std::string list;
    for (const int core : node.reserved_cores) list += fmt::format("{}{}", list.empty() ? "" : ",", core);
    plan.options.push_back({"reserve-cores", list, false, {}});
  }
  if (node.gpu_maker == GpuMaker::kIntel && node.gpus > 0 && !sets(plan, "gpu-tiles")) {
    plan.options.push_back({"gpu-tiles", fmt::format("{}x{}", node.gpus, node.gpu_tiles), false, {}});
  }
}

Status add_proxy(const Values& values, LaunchPlan& plan) {
  const auto set = [&](const std::optional<Text>& text, std::initializer_list<const char*> names) -> Status {
    if (!text) return base::ok_status();
    MUSTER_ASSIGN_OR_RETURN(const auto value, fill(*text, values));
    if (!value) return base::ok_status();
    for (const char* name : names) plan.environment.emplace_back(name, *value);
    return base::ok_status();
  };
  MUSTER_RETURN_IF_ERROR(set(values.of().proxy, {"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"}));
  return set(values.of().no_proxy, {"no_proxy", "NO_PROXY"});
}

}  // namespace

std::vector<std::string> LaunchOption::words() const {
  if (is_switch) return {(value == "true" ? "--" : "--no-") + name};
  return {"--" + name, value};
}

std::vector<LaunchOption> LaunchPlan::reach() const {
  std::vector<LaunchOption> result;
  std::ranges::copy_if(options, std::back_inserter(result), [](const LaunchOption& option) {
    return std::ranges::find(kReach, option.name) != std::end(kReach);
  });
  return result;
}

void LaunchPlan::leave_out(std::string_view option) {
  std::erase_if(options, [&](const LaunchOption& each) { return means_option(option, each.name, each.value); });
}

Result<LaunchPlan> plan_launch(const Values& values) {
  const Template& job_template = values.of();
  LaunchPlan plan;
  for (const NamedText& option : job_template.launch) MUSTER_RETURN_IF_ERROR(add_option(option, values, plan));
  leave_lists_out(values, plan);
  add_node_options(job_template.node, plan);
  MUSTER_RETURN_IF_ERROR(add_proxy(values, plan));
  for (const NamedText& variable : job_template.environment) {
    MUSTER_ASSIGN_OR_RETURN(auto value, fill(variable.value, values));
    if (value) plan.environment.emplace_back(variable.name, *std::move(value));
  }
  MUSTER_ASSIGN_OR_RETURN(plan.prefix, role_prefix(values));
  return plan;
}

std::string left_out_note(const Template& job_template) {
  std::vector<std::string> parts;
  if (!job_template.modules.empty()) parts.emplace_back("modules");
  if (!job_template.pre.job.empty()) parts.emplace_back("pre.job");
  if (!job_template.pre.node.empty()) parts.emplace_back("pre.node");
  if (!job_template.post.job.empty()) parts.emplace_back("post.job");
  if (!job_template.post.node.empty()) parts.emplace_back("post.node");
  if (parts.empty()) return "";
  return fmt::format(
      "template {}: only its script runs these parts, which are ignored here: {} (muster render -t {} writes the "
      "script)",
      base::printable(job_template.name), base::join(parts, ", "), base::printable(job_template.name));
}

bool means_option(std::string_view left_out, std::string_view name, std::string_view value) {
  if (left_out != kCpuLists) return name == left_out;
  return name == "bind-to" && value.starts_with("list:");
}

std::vector<std::string_view> overruled_by(std::string_view option, std::string_view value) {
  if (option == "bind-to") return {"bind-to", "depth", "hyperthreads"};
  if (option == "depth") return {"depth", "bind-to"};  // --depth means --bind-to depth
  if (option == "gpu-bind" && value == "none") return {"gpu-bind", "gpu-order", kCpuLists};
  if (option == "gpu-bind") return {"gpu-bind", "gpu-order"};
  if (option == "bootstrap" || option == "bootstrap-cmd") return {"bootstrap", "bootstrap-cmd"};
  if (option == "hosts" || option == "hostfile") return {"hosts", "hostfile"};
  return {option};
}

}  // namespace muster::job_templates
