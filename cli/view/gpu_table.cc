// This file formats GPUs for `muster hosts`: one summary for a host, or one row for each GPU.
// Read gpu_summary() and format_gpus() at the end first.
#include "cli/view/gpu_table.h"

#include <algorithm>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "base/strings.h"
#include "cli/view/host_table.h"

namespace muster::cli::inline view {
namespace {

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : base::printable(text);
}

std::string counted(int count, std::string_view what, std::string_view plural) {
  return fmt::format("{} {}", count, count == 1 ? what : plural);
}

std::string_view make_of(v1::GpuVendor vendor) {
  switch (vendor) {
    case v1::GPU_VENDOR_AMD:
      return "AMD GPU";
    case v1::GPU_VENDOR_INTEL:
      return "Intel GPU";
    default:
      return "NVIDIA GPU";
  }
}

std::string model_of(const v1::Gpu& gpu) {
  return gpu.model().empty() ? std::string(make_of(gpu.vendor())) : base::printable(gpu.model());
}

// Returns the load of a GPU. nullptr if the host has not reported it.
const v1::GpuLoad* load_of(const v1::LauncherHost& host, const v1::Gpu& gpu) {
  const auto is_its = [&gpu](const v1::GpuLoad& load) {
    return load.vendor() == gpu.vendor() && load.index() == gpu.index();
  };
  const auto found = std::ranges::find_if(host.load().gpus(), is_its);
  return found == host.load().gpus().end() ? nullptr : &*found;
}

struct GpuRow {
  std::string host;
  std::string gpu;
  std::string model;
  std::string memory = "-";
  std::string used = "-";
  std::string busy = "-";
  std::string processes = "-";
  std::string numa = "-";
  std::string pci = "-";
  std::string uuid;
};

GpuRow row_of(const v1::LauncherHost& host, const v1::Gpu& gpu) {
  GpuRow row;
  row.host = base::printable(host.name());
  row.gpu = std::to_string(gpu.index());
  row.model = model_of(gpu) + (gpu.divided() ? " (MIG)" : "") +
              (gpu.tiles() > 1 ? fmt::format(" ({} tiles)", gpu.tiles()) : "");
  row.memory = size_of_mib(gpu.memory_mib());
  if (gpu.has_numa()) row.numa = std::to_string(gpu.numa());
  row.pci = or_dash(gpu.pci());
  row.uuid = or_dash(gpu.uuid());
  const v1::GpuLoad* const load = load_of(host, gpu);
  if (load == nullptr) return row;
  if (load->has_memory_used_mib()) row.used = fmt::format("{} MiB", load->memory_used_mib());
  if (!load->busy_unknown()) row.busy = fmt::format("{}%", load->busy_percent());
  if (load->has_processes()) row.processes = std::to_string(load->processes());
  return row;
}

GpuRow row_of(const v1::LauncherHost& host, const v1::Gpu& gpu, int part) {
  GpuRow row;
  row.host = base::printable(host.name());
  row.gpu = fmt::format("{}.{}", gpu.index(), part);
  row.model = or_dash(gpu.parts(part).model());
  row.memory = size_of_mib(gpu.parts(part).memory_mib());
  row.uuid = or_dash(gpu.parts(part).uuid());
  return row;
}

}  // namespace

std::string gpu_summary(const v1::LauncherHost& host) {
  std::map<std::string, int> models;
  bool has_facts = false;
  int parts = 0;
  int divided = 0;
  for (const v1::Gpu& gpu : host.gpus()) {
    has_facts = has_facts || !gpu.model().empty() || gpu.memory_mib() != 0;
    ++models[gpu.memory_mib() == 0 ? model_of(gpu)
                                   : fmt::format("{} of {}", model_of(gpu), size_of_mib(gpu.memory_mib()))];
    parts += gpu.parts_size();
    if (gpu.divided()) ++divided;
  }
  for (const v1::GpuLoad& load : host.load().gpus()) {
    has_facts = has_facts || load.has_memory_used_mib() || load.has_processes();
  }
  if (!has_facts) return {};
  std::vector<std::string> words;
  for (const auto& [model, count] : models) words.push_back(fmt::format("{} x {}", count, model));
  std::string text = base::join(words, ", ");
  if (divided > 0) text += fmt::format("; {} divided (MIG), {}", divided, counted(parts, "part", "parts"));
  std::int64_t used = 0;
  int processes = 0;
  bool is_used_known = false;
  bool are_processes_known = false;
  for (const v1::GpuLoad& load : host.load().gpus()) {
    is_used_known = is_used_known || load.has_memory_used_mib();
    are_processes_known = are_processes_known || load.has_processes();
    used += load.memory_used_mib();
    processes += load.processes();
  }
  if (is_used_known) text += fmt::format("; {} MiB used", used);
  if (are_processes_known) {
    text += fmt::format("{} {}", is_used_known ? "," : ";", counted(processes, "process", "processes"));
  }
  return text;
}

std::string format_gpus(const std::vector<v1::LauncherHost>& hosts) {
  std::vector<GpuRow> rows;
  for (const v1::LauncherHost& host : hosts) {
    for (const v1::Gpu& gpu : host.gpus()) {
      rows.push_back(row_of(host, gpu));
      for (int part = 0; part < gpu.parts_size(); ++part) rows.push_back(row_of(host, gpu, part));
    }
  }
  if (rows.empty()) return {};
  std::size_t host_width = 4;
  std::size_t model_width = 5;
  std::size_t pci_width = 3;
  for (const GpuRow& row : rows) {
    host_width = std::max(host_width, row.host.size());
    model_width = std::max(model_width, row.model.size());
    pci_width = std::max(pci_width, row.pci.size());
  }
  const auto line = [&](const GpuRow& row) {
    return fmt::format("{:<{}}  {:>4}  {:<{}}  {:>8}  {:>10}  {:>4}  {:>9}  {:>4}  {:<{}}  {}\n", row.host, host_width,
                       row.gpu, row.model, model_width, row.memory, row.used, row.busy, row.processes, row.numa,
                       row.pci, pci_width, row.uuid);
  };
  std::string table = line({"host", "gpu", "model", "memory", "used", "busy", "processes", "numa", "pci", "uuid"});
  for (const GpuRow& row : rows) table += line(row);
  return table;
}

}  // namespace muster::cli::view
