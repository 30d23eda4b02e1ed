#include "cli/top/host_order.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "cli/top/filter_words.h"
#include "cli/view/host_table.h"
#include "model/host_ranges.h"

namespace muster::cli::inline top {
namespace {

double value_of(const v1::LauncherHost& host, HostOrder order) {
  switch (order) {
    case HostOrder::kSlots:
      return host.slots() == 0 ? -1 : static_cast<double>(host.used_slots()) / host.slots();
    case HostOrder::kCpu:
      return host.load().has_cpu_percent() ? host.load().cpu_percent() : -1;
    case HostOrder::kMemory:
      if (!host.load().has_memory_used_mib() || host.memory_mib() <= 0) return -1;
      return static_cast<double>(host.load().memory_used_mib()) / static_cast<double>(host.memory_mib());
    case HostOrder::kGpu:
      return gpu_percent(host);
    case HostOrder::kOutput:
      return host.has_output_bytes_per_second() ? static_cast<double>(host.output_bytes_per_second()) : -1;
    default:
      return 0;
  }
}

}  // namespace

std::string_view name_of(HostOrder order) {
  static constexpr auto kNames =
      std::to_array<std::string_view>({"launcherd's list", "name", "used slots", "cpu", "memory", "gpus", "output"});
  return kNames.at(static_cast<std::size_t>(order));
}

std::vector<std::size_t> ordered_hosts(const std::vector<v1::LauncherHost>& hosts, const std::string& filter,
                                       HostOrder order, bool is_reversed) {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const v1::LauncherHost& host = hosts[i];
    if (has_all_words(filter, {host.name(), agent_state(host), host.reason(), host.problem()})) rows.push_back(i);
  }
  if (order == HostOrder::kName) {
    std::stable_sort(rows.begin(), rows.end(), [&](std::size_t one, std::size_t other) {
      return model::is_natural_before(hosts[one].name(), hosts[other].name());
    });
  } else if (order != HostOrder::kList) {
    std::ranges::stable_sort(rows, std::ranges::greater(), [&](std::size_t i) { return value_of(hosts[i], order); });
  }
  if (is_reversed) std::ranges::reverse(rows);
  return rows;
}

int gpu_percent(const v1::LauncherHost& host) {
  int sum = 0;
  int known = 0;
  for (const v1::GpuLoad& gpu : host.load().gpus()) {
    if (gpu.busy_unknown()) continue;
    sum += gpu.busy_percent();
    ++known;
  }
  return known == 0 ? -1 : sum / known;
}

}  // namespace muster::cli::top
