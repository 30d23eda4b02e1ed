#include "cli/top/detail_head.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/strings.h"
#include "cli/top/host_rows.h"
#include "cli/top/job_rows.h"
#include "cli/view/host_table.h"
#include "cli/view/job_table.h"

namespace muster::cli::inline top {
namespace {

// How lines of `muster status` are shown, by their beginning.
constexpr auto kHeadStyles =
    std::to_array<std::pair<std::string_view, TextStyle>>({{"seems to hang: ", TextStyle::kBad},
                                                           {"WARNING: ", TextStyle::kBad},
                                                           {"failed host: ", TextStyle::kBad},
                                                           {"late: ", TextStyle::kWaiting},
                                                           {"last change: ", TextStyle::kNews}});

TextStyle head_style(std::string_view line, const v1::Job& job) {
  if (line.starts_with("reason: ")) return style_of(job.state());
  const auto is_its = [line](const auto& row) { return line.starts_with(row.first); };
  const auto* const found = std::ranges::find_if(kHeadStyles, is_its);
  return found == kHeadStyles.end() ? TextStyle::kPlain : found->second;
}

StyledLine plain_line(std::string text, TextStyle style = TextStyle::kPlain) {
  return {.parts = {{std::move(text), style}}};
}

StyledLine gpu_line(const v1::LauncherHost& host, const v1::GpuLoad& load) {
  const auto is_its = [&load](const v1::Gpu& gpu) {
    return gpu.vendor() == load.vendor() && gpu.index() == load.index();
  };
  const auto gpu = std::ranges::find_if(host.gpus(), is_its);
  StyledLine line{.parts = {{fmt::format("gpu {:<5}", load.index())}}};
  if (load.busy_unknown()) {
    line.parts.push_back({"load not known"});
  } else {
    line.parts.push_back(
        {load_bar(load.busy_percent() / 100.0, fmt::format("{}%", load.busy_percent()), kWideBar), TextStyle::kGood});
  }
  if (load.has_memory_used_mib()) line.parts.push_back({fmt::format("  {} MiB used", load.memory_used_mib())});
  if (load.has_processes()) line.parts.push_back({fmt::format("  {} processes", load.processes())});
  if (gpu != host.gpus().end()) line.parts.push_back({"  " + gpu->model()});
  return line;
}

}  // namespace

std::vector<StyledLine> job_head(const v1::Job* job, const std::string& id, const std::string& problem,
                                 base::WallTime now) {
  std::vector<StyledLine> lines;
  if (!problem.empty()) lines.push_back(plain_line(fmt::format("job {}: {}", id, problem), TextStyle::kBad));
  if (job == nullptr) {
    if (lines.empty()) lines.push_back(plain_line(fmt::format("job {}: waiting for the answer", id)));
    return lines;
  }
  const std::string text = format_job_head(*job, now);
  for (const std::string_view line : base::split(base::trim(text), '\n')) {
    lines.push_back(plain_line(std::string(line), head_style(line, *job)));
  }
  const auto first = lines.begin() + (problem.empty() ? 0 : 1);
  first->parts.front().style = TextStyle::kStrong;
  std::stable_partition(first, lines.end(),
                        [](const StyledLine& line) { return line.parts.front().style != TextStyle::kPlain; });
  return lines;
}

std::vector<StyledLine> host_head(const v1::LauncherHost* host, const std::string& name) {
  if (host == nullptr) return {plain_line(fmt::format("launcherd has no host {} now", name), TextStyle::kBad)};
  std::vector<StyledLine> lines{plain_line(fmt::format("host {}: agent {}, {} slots used, {} ranks", host->name(),
                                                       agent_state(*host), slots_of(*host), host->ranks()),
                                           TextStyle::kStrong)};
  if (!host->problem().empty()) lines.push_back(plain_line(host->problem(), TextStyle::kBad));
  if (host->drained() && !host->reason().empty()) {
    lines.push_back(plain_line("drained: " + host->reason(), TextStyle::kWaiting));
  }
  if (const ScreenCell cpu = cpu_cell(*host, kWideBar); host->load().has_cpu_percent()) {
    lines.push_back({.parts = {{"cpu      "}, cpu.front(), {fmt::format("  {} cores", host->cores())}}});
  }
  if (const ScreenCell memory = memory_cell(*host, kWideBar); host->load().has_memory_used_mib()) {
    lines.push_back({.parts = {{"memory   "}, memory.front()}});
  }
  for (const v1::GpuLoad& load : host->load().gpus()) lines.push_back(gpu_line(*host, load));
  if (!host->gpu_problem().empty()) lines.push_back(plain_line("gpus: " + host->gpu_problem(), TextStyle::kBad));
  for (const v1::LeftOut& left_out : host->left_out()) {
    lines.push_back(
        plain_line(fmt::format("failed in job {}: {}", left_out.job(), left_out.reason()), TextStyle::kWaiting));
  }
  if (!host->kernel().empty()) {
    lines.push_back(plain_line(fmt::format("kernel {}, containment {}", host->kernel(), host->containment())));
  }
  return lines;
}

}  // namespace muster::cli::top
