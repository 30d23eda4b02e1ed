// Allocations: one from_ function for each scheduler, and parsers of their lists.
// Read find_allocation at the end first, then the from_ functions.
#include "launcherd/hosts/allocation.h"

#include <algorithm>
#include <set>

#include "base/strings.h"
#include "launcherd/hosts/hostfile.h"

namespace muster::launcherd::inline hosts {
namespace {

using base::Result;
using base::Status;
using model::HostSpec;
using Hosts = std::vector<HostSpec>;

constexpr std::string_view kPartition = "COBALT_PARTNAME";
constexpr std::string_view kTasks = "SLURM_TASKS_PER_NODE";
constexpr std::string_view kLsfHosts = "LSB_MCPU_HOSTS";

Status bad_tasks(std::string_view text) {
  return base::invalid_argument("{}: '{}' is not a list of numbers such as 2(x3),1: name the hosts by -H", kTasks,
                                base::printable(text));
}

// Expands "2(x3),1" to 2, 2, 2, 1. Returns at most `most` numbers.
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
      return base::invalid_argument("{}: '{}' counts more nodes than SLURM_JOB_NODELIST, which names {}", kTasks,
                                    base::printable(text), most);
    }
    tasks.insert(tasks.end(), static_cast<std::size_t>(*times), static_cast<int>(*count));
  }
  if (tasks.size() < most) {
    return base::invalid_argument("{}: '{}' counts {} nodes, SLURM_JOB_NODELIST names {}", kTasks,
                                  base::printable(text), tasks.size(), most);
  }
  return tasks;
}

bool is_each_once(const Hosts& hosts) {
  std::set<std::string_view> names;
  return std::ranges::all_of(hosts,
                             [&](const HostSpec& host) { return !host.slots && names.insert(host.name).second; });
}

// Makes an allocation for schedulers that list a host once per chunk or task, if the job requests chunks or tasks.
Allocation one_slot_by_default(std::string scheduler, std::string source, Hosts hosts) {
  const bool is_open = is_each_once(hosts);
  return {std::move(scheduler), std::move(source), std::move(hosts), is_open};
}

Result<std::optional<Allocation>> from_file(std::string scheduler, std::string_view variable, std::string_view path) {
  auto hosts = read_hostfile(std::string(path));
  if (!hosts.ok()) return hosts.status().with_context(fmt::format("{} (-H names other hosts)", variable));
  return std::optional(
      one_slot_by_default(std::move(scheduler), fmt::format("{} {}", variable, path), std::move(*hosts)));
}

// If jsrun starts programs, LSF lists the host of the batch script first, with one slot. Drop that host, because it is
// no compute node.
void drop_lsf_launch_node(Hosts& hosts) {
  if (hosts.size() < 2 || hosts[0].name == hosts[1].name) return;
  if (hosts[0].name.starts_with("batch") || hosts[0].name.starts_with("login")) hosts.erase(hosts.begin());
}

// Inside a Flux instance, returns the instance's own hosts.
Result<std::optional<Allocation>> from_flux(const AskProgram& ask) {
  const std::vector<std::string> command = {"flux", "getattr", "hostlist"};
  const auto answer = ask(command);
  if (!answer.ok()) return answer.status().with_context("FLUX_URI (-H names other hosts)");
  MUSTER_ASSIGN_OR_RETURN(Hosts hosts, model::parse_host_list(base::trim(*answer), base::join(command, " ")));
  return std::optional(one_slot_by_default("Flux", base::join(command, " "), std::move(hosts)));
}

// Sums the GPUs of "4", "a100:4" or "a100:2,v100:2". nullopt for an empty or other text.
std::optional<long> slurm_gpus(std::string_view text) {
  long sum = 0;
  for (const std::string_view kind : base::split(text, ',')) {
    const auto gpus = base::parse_decimal(kind.substr(kind.rfind(':') + 1), model::kMaxSlotsPerHost);
    if (!gpus) return std::nullopt;
    sum += *gpus;
  }
  return sum > 0 && sum <= model::kMaxSlotsPerHost ? std::optional(sum) : std::nullopt;
}

// A job that does not mention tasks gets one rank per GPU. Slurm itself would count one task per node.
Result<std::optional<Allocation>> from_slurm(const base::Environment& environment, std::string_view list) {
  const std::string variable = "SLURM_JOB_NODELIST";
  MUSTER_ASSIGN_OR_RETURN(const Hosts nodes, slurm_hosts(list, ""));
  const bool has_tasks = environment.get("SLURM_NTASKS") || environment.get("SLURM_NTASKS_PER_NODE");
  // The number of GPUs that the job requested on every node.
  const auto of_each = slurm_gpus(environment.get("SLURM_GPUS_PER_NODE").value_or(""));
  if (!has_tasks && of_each) {
    MUSTER_ASSIGN_OR_RETURN(Hosts hosts, slurm_hosts(list, fmt::format("{}(x{})", *of_each, nodes.size())));
    return std::optional(Allocation{"Slurm", variable, std::move(hosts)});
  }
  // The number of GPUs on the script's node. Other nodes may have more or fewer.
  const auto here = slurm_gpus(environment.get("SLURM_GPUS_ON_NODE").value_or(""));
  const auto own = std::ranges::find(nodes, environment.get("SLURMD_NODENAME").value_or(""), &HostSpec::name);
  if (!has_tasks && here) {
    std::vector<std::string> counts(nodes.size(), "1");
    if (own != nodes.end()) counts[static_cast<std::size_t>(own - nodes.begin())] = fmt::format("{}", *here);
    MUSTER_ASSIGN_OR_RETURN(Hosts hosts, slurm_hosts(list, base::join(counts, ",")));
    const bool has_others = nodes.size() > 1 || own == nodes.end();
    return std::optional(Allocation{"Slurm", variable, std::move(hosts), has_others});
  }
  MUSTER_ASSIGN_OR_RETURN(Hosts hosts, slurm_hosts(list, environment.get("SLURM_TASKS_PER_NODE").value_or("")));
  const bool has_uncounted = !has_tasks && is_each_once(hosts);
  return std::optional(Allocation{"Slurm", variable, std::move(hosts), has_uncounted});
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
      return base::invalid_argument("{}: more than {} tasks: name the hosts by -H", kTasks, model::kMaxHosts);
    }
    hosts.insert(hosts.end(), repeats, nodes[i]);
  }
  return hosts;
}

Result<Hosts> cobalt_hosts(std::string_view node_ids) {
  Hosts hosts;
  for (const std::string_view part : base::split(node_ids, ',')) {
    constexpr long kMostId = 99'999;  // a Cray's node name has five digits
    const auto dash = part.find('-');
    const auto first = base::parse_decimal(part.substr(0, dash), kMostId);
    const auto last = dash == std::string_view::npos ? first : base::parse_decimal(part.substr(dash + 1), kMostId);
    if (!first || !last || *last < *first) {
      return base::invalid_argument("{}: '{}' is not a list of node numbers such as 1-3,7: name the hosts by -H",
                                    kPartition, base::printable(node_ids));
    }
    if (hosts.size() + static_cast<std::size_t>(*last - *first) >= static_cast<std::size_t>(model::kMaxHosts)) {
      return base::invalid_argument("{}: more than {} nodes", kPartition, model::kMaxHosts);
    }
    for (long id = *first; id <= *last; ++id) hosts.push_back({.name = fmt::format("nid{:05}", id)});
  }
  return hosts;
}

Result<Hosts> lsf_hosts(std::string_view hosts_and_slots) {
  const auto bad = [&] {
    return base::invalid_argument("{}: '{}' is not a list such as 'n1 4 n2 4': name the hosts by -H", kLsfHosts,
                                  base::printable(hosts_and_slots));
  };
  std::vector<std::string_view> words;
  for (const std::string_view word : base::split(hosts_and_slots, ' ')) {
    if (!word.empty()) words.push_back(word);
  }
  if (words.empty() || words.size() % 2 != 0) return bad();
  Hosts hosts;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const auto slots = base::parse_decimal(words[i + 1], model::kMaxSlotsPerHost);
    if (!slots || *slots == 0) return bad();
    MUSTER_ASSIGN_OR_RETURN(const Hosts named, model::parse_host_list(words[i], kLsfHosts));
    if (named.size() != 1 || named[0].slots) return bad();
    hosts.insert(hosts.end(), static_cast<std::size_t>(*slots), named[0]);
    if (hosts.size() > static_cast<std::size_t>(model::kMaxHosts)) return bad();
  }
  return hosts;
}

Result<std::optional<Allocation>> find_allocation(const base::Environment& environment, const AskProgram& ask) {
  // A list in the environment itself is always current, so prefer it. A node file may belong to an earlier job.
  if (const auto list = environment.get("SLURM_JOB_NODELIST"); list && !list->empty()) {
    return from_slurm(environment, *list);
  }
  if (const auto path = environment.get("PBS_NODEFILE"); path && !path->empty()) {
    return from_file("PBS", "PBS_NODEFILE", *path);
  }
  if (const auto path = environment.get("COBALT_NODEFILE"); path && !path->empty()) {
    return from_file("Cobalt", "COBALT_NODEFILE", *path);
  }
  // On a Cray the job script runs on a service node, and the list gives node numbers.
  if (const auto ids = environment.get("COBALT_PARTNAME");
      ids && !ids->empty() && ids->find_first_not_of("0123456789,-") == std::string_view::npos) {
    MUSTER_ASSIGN_OR_RETURN(Hosts hosts, cobalt_hosts(*ids));
    return std::optional(one_slot_by_default("Cobalt", "COBALT_PARTNAME", std::move(hosts)));
  }
  if (const auto path = environment.get("LSB_DJOB_HOSTFILE"); path && !path->empty()) {
    MUSTER_ASSIGN_OR_RETURN(auto allocation, from_file("LSF", "LSB_DJOB_HOSTFILE", *path));
    drop_lsf_launch_node(allocation->hosts);
    allocation->has_uncounted = false;  // LSF lists slots
    return allocation;
  }
  if (const auto list = environment.get("LSB_MCPU_HOSTS"); list && !list->empty()) {
    MUSTER_ASSIGN_OR_RETURN(Hosts hosts, lsf_hosts(*list));
    drop_lsf_launch_node(hosts);
    return std::optional(Allocation{"LSF", std::string(kLsfHosts), std::move(hosts)});
  }
  if (const auto uri = environment.get("FLUX_URI"); uri && !uri->empty()) return from_flux(ask);
  return std::optional<Allocation>();
}

}  // namespace muster::launcherd::hosts
