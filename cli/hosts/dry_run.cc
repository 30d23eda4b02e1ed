// This file plans a dry run (plan_dry_run), formats it as a table or JSON, and runs it (run_dry).
// Read run_dry() at the end first, then plan_dry_run().
#include "cli/hosts/dry_run.h"

#include <algorithm>
#include <cstdio>

#include "base/cpu_set.h"
#include "base/print.h"
#include "cli/hosts/console.h"
#include "cli/hosts/job_hosts.h"
#include "cli/hosts/standard_streams.h"
#include "cli/hosts/surroundings.h"
#include "cli/options/exit_codes.h"
#include "model/gpu_binding.h"
#include "model/gpu_mask.h"

namespace muster::cli::inline hosts {
namespace {

// Returns a JSON string. Names of hosts hold no control characters, but a caller's mistake must not break the line.
std::string json_quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += fmt::format("\\{}", c);
    } else if (byte < 0x20) {
      result += fmt::format("\\u{:04x}", byte);
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string joined(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += fmt::format("{}{}", text.empty() ? "" : ",", number);
  return text;
}

// Names the GPUs of a rank: "3" for one, "2,3" for several, "3.1" for a tile.
std::string name_of_gpu(const DryRank& rank) {
  if (rank.gpus.empty()) return "-";
  return rank.tile ? fmt::format("{}.{}", rank.gpus.front(), *rank.tile) : joined(rank.gpus);
}

// Returns the shape of this machine. It asks a local agent, which also knows GPUs. If no agent answers, it reads the
// cores from the kernel's files.
model::NodeShape own_shape(const model::JobSpec& job, const model::HostSpec& host, const ProbeJobHosts& ask) {
  std::vector<base::Result<model::NodeShape>> answers = ask(job, {host});
  if (!answers.empty() && answers.front().ok()) return *std::move(answers.front());
  const std::string why = answers.empty() ? "no answer" : answers.front().status().message();
  base::print_remark("hvdrun: the GPUs of this machine are unknown: {}\n", why);
  return read_node_shape("/sys/devices/system/cpu", base::allowed_cpus());
}

// Returns the shape that the user gave for all hosts. Without one, only this host's shape is known.
std::vector<std::optional<model::NodeShape>> shapes_of(const model::Placement& placement, const HvdrunOptions& options,
                                                       const ProbeJobHosts& ask) {
  std::vector<std::optional<model::NodeShape>> shapes;
  for (const model::PlacedHost& host : placement.hosts) {
    std::optional<model::NodeShape> shape = options.dry_run.assumed_node;
    if (!shape && model::is_localhost(host.host)) shape = own_shape(options.request.job, host.host, ask);
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

// Returns the shapes, or an empty list if a host could not be asked. Prints a remark for each such host.
std::vector<std::optional<model::NodeShape>> asked_shapes(std::vector<base::Result<model::NodeShape>> answers) {
  std::vector<std::optional<model::NodeShape>> shapes;
  bool is_whole = true;
  for (base::Result<model::NodeShape>& answer : answers) {
    if (!answer.ok()) base::print_remark("hvdrun: {}\n", answer.status().message());
    is_whole = is_whole && answer.ok();
    if (is_whole) shapes.emplace_back(*std::move(answer));
  }
  if (!is_whole) shapes.clear();
  return shapes;
}

// Returns the shapes of `hosts`, for a job whose number of ranks depends on them. It uses --assume-node, or asks the
// hosts.
std::vector<base::Result<model::NodeShape>> assumed_or_probed(const HvdrunOptions& options,
                                                              const std::vector<model::HostSpec>& hosts,
                                                              const ProbeJobHosts& ask) {
  if (options.dry_run.probe) return ask(options.request.job, hosts);
  if (options.dry_run.assumed_node) return {hosts.size(), *options.dry_run.assumed_node};
  if (std::ranges::all_of(hosts, model::is_localhost)) return ask(options.request.job, hosts);
  return {base::invalid_argument("--dry-run asks no host: add --probe, or --assume-node with the shape of the hosts")};
}

}  // namespace

base::Result<std::vector<DryHost>> plan_dry_run(const model::Placement& placement,
                                                const std::vector<std::optional<model::NodeShape>>& shapes,
                                                const model::JobSpec& job, const base::Environment& launcher) {
  std::vector<DryHost> hosts;
  for (std::size_t i = 0; i < placement.hosts.size(); ++i) {
    const model::PlacedHost& placed = placement.hosts[i];
    DryHost& host = hosts.emplace_back();
    host.host = &placed;
    host.is_known = shapes[i].has_value();
    model::NodeBinding binding;
    if (shapes[i]) {
      model::GpuMasks masks;
      const bool is_local = model::is_localhost(placed.host);
      model::set_gpu_masks(model::exported_variables(launcher, job.environment, is_local), masks);
      auto bound = model::bind_node(*shapes[i], static_cast<int>(placed.ranks.size()), job.pinning, masks);
      if (!bound.ok()) return bound.status().with_context(placed.host.name);
      binding = *std::move(bound);
      const int ranks = static_cast<int>(placed.ranks.size());
      for (const std::string& remark :
           {model::crowd_remark(ranks, binding.visible_gpus, job.pinning), binding.remark}) {
        if (!remark.empty()) host.remarks.push_back(remark);
      }
    }
    for (std::size_t k = 0; k < placed.ranks.size(); ++k) {
      DryRank& rank = host.ranks.emplace_back();
      rank.place = &placed.ranks[k];
      if (!shapes[i]) continue;
      rank.cpus = binding.cores[k].cpus;
      rank.gpus = binding.gpus[k].indices;
      rank.tile = binding.gpus[k].tile;
    }
  }
  return hosts;
}

std::string format_dry_run(const std::vector<DryHost>& hosts, const model::Placement& placement) {
  const bool has_roles = !placement.roles.empty();
  std::size_t width = 4;
  std::vector<std::pair<const DryHost*, const DryRank*>> by_rank;
  for (const DryHost& host : hosts) {
    width = std::max(width, model::display_name(host.host->host).size());
    for (const DryRank& rank : host.ranks) by_rank.emplace_back(&host, &rank);
  }
  std::ranges::sort(by_rank, {}, [](const auto& entry) { return entry.second->place->rank; });
  std::string table = fmt::format("{:>6}  {:<{}}  {:>9}  {:>9}  {:>3}  {}{}\n", "rank", "host", width, "local", "cross",
                                  "gpu", has_roles ? fmt::format("{:<10}  ", "role") : "", "cpus");
  for (const auto& [host, rank] : by_rank) {
    const model::PlacedRank& place = *rank->place;
    const std::string cpus = !host->is_known ? "-" : rank->cpus.empty() ? "all" : model::format_cpu_list(rank->cpus);
    table +=
        fmt::format("{:>6}  {:<{}}  {:>9}  {:>9}  {:>3}  {}{}\n", place.rank, model::display_name(host->host->host),
                    width, fmt::format("{}/{}", place.local_rank, place.local_size),
                    fmt::format("{}/{}", place.cross_rank, place.cross_size), name_of_gpu(*rank),
                    has_roles ? fmt::format("{:<10}  ", placement.role(place.rank)) : "", cpus);
  }
  return table;
}

std::string dry_run_json(const model::Placement& placement, const std::vector<DryHost>& hosts) {
  std::string text = fmt::format("{{\"size\":{},\"hosts\":[", placement.size);
  for (const DryHost& host : hosts) {
    text += fmt::format("{}{{\"name\":{},\"slots\":{},\"ranks\":[", text.back() == '[' ? "" : ",",
                        json_quoted(host.host->host.name), host.host->slots);
    for (const DryRank& rank : host.ranks) {
      const model::PlacedRank& place = *rank.place;
      text += fmt::format(
          "{}{{\"rank\":{},\"local_rank\":{},\"local_size\":{},\"cross_rank\":{},\"cross_size\":{},\"host_index\":{},"
          "\"cpus\":[{}],\"gpus\":[{}],\"tiles\":[{}]}}",
          text.back() == '[' ? "" : ",", place.rank, place.local_rank, place.local_size, place.cross_rank,
          place.cross_size, place.host_index, joined(rank.cpus), joined(rank.gpus),
          rank.tile ? json_quoted(name_of_gpu(rank)) : "");
    }
    text += "]}";
  }
  text += "],\"roles\":[";
  for (const model::RoleRanks& role : placement.roles) {
    text += fmt::format("{}{{\"name\":{},\"first\":{},\"count\":{}}}", text.back() == '[' ? "" : ",",
                        json_quoted(role.name), role.first, role.count);
  }
  return text + "]}\n";
}

int run_dry(HvdrunOptions options, const base::Environment& environment, const ProbeJobHosts& ask) {
  const Console console(options.output.color, environment);
  const auto placed =
      place_job(options, environment, logical_working_directory(environment),
                [&](const std::vector<model::HostSpec>& hosts) { return assumed_or_probed(options, hosts, ask); });
  if (!placed.ok()) {
    return console.fail("hvdrun", placement_exit_code(placed.status()), placed.status().message());
  }
  for (const std::string& note : options.output.notes) base::print_remark("hvdrun: {}\n", note);
  std::vector<model::HostSpec> hosts_there;
  for (const model::PlacedHost& host : placed->placement.hosts) hosts_there.push_back(host.host);
  const auto shapes = options.dry_run.probe ? asked_shapes(ask(options.request.job, hosts_there))
                                            : shapes_of(placed->placement, options, ask);
  if (shapes.size() != placed->placement.hosts.size()) return kMusterFailed;
  const auto hosts = plan_dry_run(placed->placement, shapes, options.request.job, environment);
  if (!hosts.ok()) {
    return console.fail("hvdrun", placement_exit_code(hosts.status()), hosts.status().message());
  }
  for (const DryHost& host : *hosts) {
    for (const std::string& remark : host.remarks) {
      base::print_remark("hvdrun: {}: {}\n", host.host->host.name, remark);
    }
  }
  return print_answer("hvdrun", options.dry_run.json ? dry_run_json(placed->placement, *hosts)
                                                     : format_dry_run(*hosts, placed->placement));
}

}  // namespace muster::cli::hosts
