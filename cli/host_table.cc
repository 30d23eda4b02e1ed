#include "cli/host_table.h"

#include <algorithm>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::cli {
namespace {

std::string_view agent_of(const v1::LauncherHost& host) {
  switch (host.agent()) {
    case v1::AGENT_STATE_NONE:
      return "none";
    case v1::AGENT_STATE_STARTING:
      return "starting";
    case v1::AGENT_STATE_UP:
      return "up";
    case v1::AGENT_STATE_SUSPECT:
      return "does not answer";
    case v1::AGENT_STATE_FAILED:
      return "failed";
    default:
      return "-";
  }
}

std::string size_of(std::int64_t mebibytes) {
  if (mebibytes == 0) return "-";
  return mebibytes < 10 * 1024 ? fmt::format("{} MiB", mebibytes) : fmt::format("{} GiB", mebibytes / 1024);
}

std::string count_of(int count) {
  return count == 0 ? "-" : std::to_string(count);
}

// "4 x NVIDIA H100 80GB HBM3 of 79 GiB", for each model.
std::string models_of(const v1::LauncherHost& host) {
  std::map<std::string, int> models;
  for (const v1::Gpu& gpu : host.gpus()) {
    if (gpu.memory_mib() == 0) continue;
    ++models[fmt::format("{} of {}", base::printable(gpu.model()), size_of(gpu.memory_mib()))];
  }
  std::vector<std::string> words;
  for (const auto& [model, count] : models) words.push_back(fmt::format("{} x {}", count, model));
  return base::join(words, ", ");
}

// What the GPUs are and who uses them, as far as their drivers tell; empty: they do not.
std::string gpu_remark(const v1::LauncherHost& host) {
  std::string text = models_of(host);
  if (text.empty()) return text;
  int parts = 0;
  int divided = 0;
  for (const v1::Gpu& gpu : host.gpus()) {
    parts += gpu.parts_size();
    if (gpu.divided()) ++divided;
  }
  if (divided > 0) text += fmt::format("; {} divided (MIG), {} parts", divided, parts);
  std::int64_t used = 0;
  int processes = 0;
  for (const v1::GpuLoad& load : host.load().gpus()) {
    used += load.memory_used_mib();
    processes += load.processes();
  }
  if (!host.load().gpus().empty()) text += fmt::format("; {} MiB used, {} processes", used, processes);
  return fmt::format("  gpus: {}\n", text);
}

// Lines for GPUs, a drain's reason and a problem; empty: there is neither.
std::string host_remarks(const v1::LauncherHost& host) {
  std::string text = gpu_remark(host);
  if (!host.gpu_problem().empty()) text += fmt::format("  gpus: {}\n", base::printable(host.gpu_problem()));
  if (host.drained() && !host.reason().empty()) {
    text += fmt::format("  drained: {}\n", base::printable(host.reason()));
  }
  if (!host.problem().empty()) text += fmt::format("  {}\n", base::printable(host.problem()));
  return text;
}

}  // namespace

std::string format_hosts(const std::vector<v1::LauncherHost>& hosts) {
  static constexpr std::string_view kColumns = "{:>9}  {:>5}  {:<15}  {:>6}  {:>9}  {:>5}  {}";
  const auto columns = [](const v1::LauncherHost& host) {
    return fmt::format(kColumns, slots_of(host), host.jobs(), agent_state(host), count_of(host.cores()),
                       size_of(host.memory_mib()), count_of(host.gpus_size()),
                       host.containment().empty() ? "-" : base::printable(host.containment()));
  };
  return table_of_hosts(
      hosts, fmt::format(kColumns, "slots", "jobs", "agent", "cores", "memory", "gpus", "containment"), columns);
}

std::string table_of_hosts(const std::vector<v1::LauncherHost>& hosts, std::string_view heading,
                           const std::function<std::string(const v1::LauncherHost&)>& columns) {
  if (hosts.empty()) return {};
  std::size_t width = 4;
  for (const v1::LauncherHost& host : hosts) width = std::max(width, base::printable(host.name()).size());
  std::string table = fmt::format("{:<{}}  {}\n", "host", width, heading);
  for (const v1::LauncherHost& host : hosts) {
    table += fmt::format("{:<{}}  {}\n", base::printable(host.name()), width, columns(host));
    table += host_remarks(host);
  }
  return table;
}

std::string agent_state(const v1::LauncherHost& host) {
  return host.drained() ? fmt::format("{}, drained", agent_of(host)) : std::string(agent_of(host));
}

std::string slots_of(const v1::LauncherHost& host) {
  return fmt::format("{}/{}", host.used_slots(), host.slots());
}

}  // namespace muster::cli
