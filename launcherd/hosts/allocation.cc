#include "launcherd/hosts/allocation.h"

#include "base/strings.h"
#include "launcherd/hosts/hostfile.h"

namespace muster::launcherd {
namespace {

using base::Code;
using base::error;
using base::Result;
using base::Status;
using model::HostSpec;
using Hosts = std::vector<HostSpec>;

constexpr std::string_view kPartition = "COBALT_PARTNAME";
constexpr std::string_view kTasks = "SLURM_TASKS_PER_NODE";

Status bad_tasks(std::string_view text) {
  return error(Code::kInvalidArgument, "{}: '{}' is not a list of numbers such as 2(x3),1: name the hosts by -H",
               kTasks, base::printable(text));
}

// "2(x3),1" -> 2, 2, 2, 1; not more than `most`.
Result<std::vector<int>> expand_tasks(std::string_view text, std::size_t most) {
  std::vector<int> tasks;
  for (const std::string_view part : base::split(text, ',')) {
    const auto open = part.find("(x");
    const auto count = base::parse_decimal(part.substr(0, open), model::kMaxSlotsPerHost);
    auto times = std::optional<long>(1);
    if (open != std::string_view::npos) {
      if (!part.ends_with(')')) return bad_tasks(text);
      times = base::parse_decimal(part.substr(open + 2, part.size() - open - 3), model::kMaxHosts);
    }
    if (!count || *count == 0 || !times || *times == 0) return bad_tasks(text);
    if (static_cast<std::size_t>(*times) > most - tasks.size()) {
      return error(Code::kInvalidArgument, "{}: '{}' counts more nodes than the {} of SLURM_JOB_NODELIST", kTasks,
                   base::printable(text), most);
    }
    tasks.insert(tasks.end(), static_cast<std::size_t>(*times), static_cast<int>(*count));
  }
  if (tasks.size() < most) {
    return error(Code::kInvalidArgument, "{}: '{}' counts {} nodes, SLURM_JOB_NODELIST names {}", kTasks,
                 base::printable(text), tasks.size(), most);
  }
  return tasks;
}

Result<std::optional<Allocation>> from_file(std::string scheduler, std::string_view variable, std::string_view path) {
  auto hosts = read_hostfile(std::string(path));
  if (!hosts.ok()) return hosts.status().with_context(fmt::format("{} (-H names other hosts)", variable));
  return std::optional(Allocation{std::move(scheduler), fmt::format("{} {}", variable, path), std::move(*hosts)});
}

}  // namespace

Result<Hosts> slurm_hosts(std::string_view node_list, std::string_view tasks_per_node) {
  MUSTER_ASSIGN_OR_RETURN(const Hosts nodes, model::parse_host_list(node_list, "SLURM_JOB_NODELIST"));
  if (tasks_per_node.empty()) return nodes;
  MUSTER_ASSIGN_OR_RETURN(const std::vector<int> tasks, expand_tasks(tasks_per_node, nodes.size()));
  Hosts hosts;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto repeats = static_cast<std::size_t>(tasks[i]);
    if (hosts.size() + repeats > static_cast<std::size_t>(model::kMaxHosts)) {
      return error(Code::kInvalidArgument, "{}: more than {} tasks: name the hosts by -H", kTasks, model::kMaxHosts);
    }
    hosts.insert(hosts.end(), repeats, nodes[i]);
  }
  return hosts;
}

Result<Hosts> cobalt_hosts(std::string_view node_ids) {
  Hosts hosts;
  for (const std::string_view part : base::split(node_ids, ',')) {
    constexpr long kMostId = 99'999;  // five digits in a Cray's node name
    const auto dash = part.find('-');
    const auto first = base::parse_decimal(part.substr(0, dash), kMostId);
    const auto last = dash == std::string_view::npos ? first : base::parse_decimal(part.substr(dash + 1), kMostId);
    if (!first || !last || *last < *first) {
      return error(Code::kInvalidArgument, "{}: '{}' is not a list of node numbers such as 1-3,7: name the hosts by -H",
                   kPartition, base::printable(node_ids));
    }
    if (hosts.size() + static_cast<std::size_t>(*last - *first) >= static_cast<std::size_t>(model::kMaxHosts)) {
      return error(Code::kInvalidArgument, "{}: more than {} nodes", kPartition, model::kMaxHosts);
    }
    for (long id = *first; id <= *last; ++id) hosts.push_back({.name = fmt::format("nid{:05}", id)});
  }
  return hosts;
}

Result<std::optional<Allocation>> find_allocation(const base::Environment& environment) {
  // A list that lies in the environment itself cannot be gone; a node file may be one of an earlier job.
  if (const auto list = environment.get("SLURM_JOB_NODELIST"); list && !list->empty()) {
    const auto tasks = environment.get("SLURM_TASKS_PER_NODE");
    MUSTER_ASSIGN_OR_RETURN(Hosts hosts, slurm_hosts(*list, tasks.value_or(std::string_view())));
    return std::optional(Allocation{"Slurm", "SLURM_JOB_NODELIST", std::move(hosts)});
  }
  if (const auto path = environment.get("PBS_NODEFILE"); path && !path->empty()) {
    return from_file("PBS", "PBS_NODEFILE", *path);
  }
  if (const auto path = environment.get("COBALT_NODEFILE"); path && !path->empty()) {
    return from_file("Cobalt", "COBALT_NODEFILE", *path);
  }
  // On a Cray the job script runs on a service node, and the nodes are numbers.
  if (const auto ids = environment.get("COBALT_PARTNAME");
      ids && !ids->empty() && ids->find_first_not_of("0123456789,-") == std::string_view::npos) {
    MUSTER_ASSIGN_OR_RETURN(Hosts hosts, cobalt_hosts(*ids));
    return std::optional(Allocation{"Cobalt", "COBALT_PARTNAME", std::move(hosts)});
  }
  return std::optional<Allocation>();
}

}  // namespace muster::launcherd
