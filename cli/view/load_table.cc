#include "cli/view/load_table.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "cli/view/host_table.h"

namespace muster::cli::inline view {
namespace {

std::string cpu_of(const v1::LauncherHost& host) {
  return host.load().has_cpu_percent() ? fmt::format("{}%", host.load().cpu_percent()) : "-";
}

// Returns "12.1/62.8 GiB"; "-" if the host does not report it.
std::string memory_of(const v1::LauncherHost& host) {
  if (!host.load().has_memory_used_mib()) return "-";
  constexpr double kMibPerGib = 1024;
  return fmt::format("{:.1f}/{:.1f} GiB", static_cast<double>(host.load().memory_used_mib()) / kMibPerGib,
                     static_cast<double>(host.memory_mib()) / kMibPerGib);
}

// Returns the number of GPUs and their average load, as far as their drivers report it.
std::string gpus_of(const v1::LauncherHost& host) {
  if (host.gpus().empty()) return "-";
  int sum = 0;
  int known = 0;
  for (const v1::GpuLoad& gpu : host.load().gpus()) {
    if (gpu.busy_unknown()) continue;
    sum += gpu.busy_percent();
    ++known;
  }
  return known == 0 ? fmt::format("{}", host.gpus_size()) : fmt::format("{} {}%", host.gpus_size(), sum / known);
}

std::string output_of(const v1::LauncherHost& host) {
  return host.has_output_bytes_per_second() ? format_rate(host.output_bytes_per_second()) : "-";
}

}  // namespace

std::string format_rate(std::int64_t bytes_per_second) {
  constexpr auto kUnits = std::to_array<std::string_view>({"B/s", "kB/s", "MB/s", "GB/s"});
  auto value = static_cast<double>(std::max<std::int64_t>(bytes_per_second, 0));
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return value < 9.95 && unit > 0 ? fmt::format("{:.1f} {}", value, kUnits.at(unit))
                                  : fmt::format("{:.0f} {}", value, kUnits.at(unit));
}

std::string format_loads(const std::vector<v1::LauncherHost>& hosts) {
  static constexpr std::string_view kColumns = "{:>9}  {:>6}  {:>5}  {:>16}  {:>8}  {:>9}  {}";
  const auto columns = [](const v1::LauncherHost& host) {
    return fmt::format(kColumns, slots_of(host), host.ranks(), cpu_of(host), memory_of(host), gpus_of(host),
                       output_of(host), agent_state(host));
  };
  return table_of_hosts(hosts, fmt::format(kColumns, "slots", "ranks", "cpu", "memory", "gpus", "output", "agent"),
                        columns);
}

}  // namespace muster::cli::view
