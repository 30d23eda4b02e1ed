#include "cli/top/host_rows.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/top/host_order.h"
#include "cli/view/host_table.h"
#include "cli/view/load_table.h"

namespace muster::cli::inline top {
namespace {

constexpr double kMuchMemory = 0.85;  // of a host's memory, from which on its bar warns
constexpr double kTooMuchMemory = 0.95;
constexpr int kMemoryBar = 18;  // cells, for "12.1/62.8G"

TextStyle agent_style(const v1::LauncherHost& host) {
  if (host.drained()) return TextStyle::kWaiting;
  switch (host.agent()) {
    case v1::AGENT_STATE_UP:
      return TextStyle::kGood;
    case v1::AGENT_STATE_STARTING:
      return TextStyle::kNews;
    case v1::AGENT_STATE_SUSPECT:
    case v1::AGENT_STATE_FAILED:
      return TextStyle::kBad;
    default:
      return TextStyle::kFaint;
  }
}

ScreenCell remark_cell(const v1::LauncherHost& host, const std::string& more) {
  if (!host.problem().empty()) return {{host.problem(), TextStyle::kBad}};
  if (!host.gpu_problem().empty()) return {{host.gpu_problem(), TextStyle::kBad}};
  if (!more.empty()) return {{more, TextStyle::kWaiting}};
  if (host.drained() && !host.reason().empty()) return {{"drained: " + host.reason(), TextStyle::kWaiting}};
  if (host.left_out().empty()) return {};
  return {{fmt::format("failed in job {}", host.left_out(0).job()), TextStyle::kWaiting}};
}

std::string rate_or_dash(bool is_known, std::int64_t bytes_per_second) {
  return is_known ? format_rate(bytes_per_second) : std::string("-");
}

ScreenRow row_of(const v1::LauncherHost& host, const std::string& more) {
  const v1::HostLoad& load = host.load();
  return {.cells = {{{host.name(), TextStyle::kStrong}},
                    {{agent_state(host), agent_style(host)}},
                    {{slots_of(host)}},
                    {{fmt::format("{}", host.ranks())}},
                    cpu_cell(host, kNarrowBar),
                    memory_cell(host, kMemoryBar),
                    gpu_cell(host, kNarrowBar),
                    {{rate_or_dash(host.has_output_bytes_per_second(), host.output_bytes_per_second())}},
                    {{rate_or_dash(load.has_network_bytes_per_second(), load.network_bytes_per_second())}},
                    remark_cell(host, more)}};
}

}  // namespace

std::vector<StyledLine> host_table_lines(const std::vector<const v1::LauncherHost*>& hosts, int selected,
                                         const std::function<std::string(const std::string& host)>& remark, int width) {
  static const std::vector<ScreenColumn> kColumns = {
      {"host", Side::kLeft, 100, 24},        {"agent", Side::kLeft, 80, 16},
      {"slots", Side::kRight, 90, 9},        {"ranks", Side::kRight, 30, 6},
      {"cpu", Side::kLeft, 85, kNarrowBar},  {"memory", Side::kLeft, 70, kMemoryBar},
      {"gpus", Side::kLeft, 60, kNarrowBar}, {"output", Side::kRight, 20, 9},
      {"network", Side::kRight, 15, 9},      {"", Side::kLeft, 40, 10}};
  std::vector<ScreenRow> rows;
  for (const v1::LauncherHost* host : hosts) rows.push_back(row_of(*host, remark(host->name())));
  if (selected >= 0 && selected < std::ssize(rows)) rows[static_cast<std::size_t>(selected)].is_selected = true;
  return table_lines(kColumns, rows, width);
}

ScreenCell cpu_cell(const v1::LauncherHost& host, int cells) {
  if (!host.load().has_cpu_percent()) return {{"-"}};
  const int percent = host.load().cpu_percent();
  return {{load_bar(percent / 100.0, fmt::format("{}%", percent), cells), TextStyle::kGood}};
}

ScreenCell memory_cell(const v1::LauncherHost& host, int cells) {
  if (!host.load().has_memory_used_mib() || host.memory_mib() <= 0) return {{"-"}};
  constexpr double kMibPerGib = 1024;
  const auto used = static_cast<double>(host.load().memory_used_mib());
  const auto all = static_cast<double>(host.memory_mib());
  const double part = used / all;
  const TextStyle style = part > kTooMuchMemory ? TextStyle::kBad
                          : part > kMuchMemory  ? TextStyle::kWaiting
                                                : TextStyle::kGood;
  return {{load_bar(part, fmt::format("{:.1f}/{:.1f}G", used / kMibPerGib, all / kMibPerGib), cells), style}};
}

ScreenCell gpu_cell(const v1::LauncherHost& host, int cells) {
  if (host.gpus().empty()) return {{"-"}};
  const int percent = gpu_percent(host);
  if (percent < 0) return {{fmt::format("{}", host.gpus_size())}};
  return {{load_bar(percent / 100.0, fmt::format("{} {}%", host.gpus_size(), percent), cells), TextStyle::kGood}};
}

}  // namespace muster::cli::top
