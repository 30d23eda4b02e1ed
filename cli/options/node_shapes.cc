#include "cli/options/node_shapes.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <tuple>

#include "base/cpu_set.h"
#include "base/file.h"
#include "base/strings.h"
#include "cli/help/base_names.h"
#include "model/pinning.h"

namespace muster::cli::inline options {
namespace {

constexpr long kMostSockets = 64;
constexpr long kMostCores = 1024;
constexpr long kMostThreads = 8;
constexpr long kMostGpus = 64;

std::optional<int> read_number(const std::string& path) {
  const auto content = base::read_file(path, 64);
  if (!content.ok()) return std::nullopt;
  const auto number = base::parse_decimal(base::trim(*content), 1'000'000);
  return number ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

// Returns the NUMA node of a CPU. The directory cpuN holds a link "nodeM" to it.
int numa_of(const std::string& directory) {
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(directory, failed)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("node")) continue;
    if (const auto number = base::parse_decimal(std::string_view(name).substr(4), base::kMaxCpu)) {
      return static_cast<int>(*number);
    }
  }
  return 0;
}

}  // namespace

Result<model::NodeShape> parse_assumed_node(std::string_view text) {
  const auto fail = [&] {
    return base::invalid_argument(
        "'{}' is not a shape: write SOCKETSxCORES[xTHREADS][+GPUS], as 2x32x2+4 for two sockets of 32 cores of "
        "two threads, and four GPUs; +6x2 are six Intel GPUs of two tiles",
        base::printable(text));
  };
  const auto plus = text.find('+');
  const auto parts = base::split(text.substr(0, plus), 'x');
  if (parts.size() < 2 || parts.size() > 3) return fail();
  const auto sockets = base::parse_decimal(parts[0], kMostSockets);
  const auto cores = base::parse_decimal(parts[1], kMostCores);
  const auto threads = parts.size() == 3 ? base::parse_decimal(parts[2], kMostThreads) : std::optional<long>(1);
  const auto devices = base::split(plus == std::string_view::npos ? "0" : text.substr(plus + 1), 'x');
  const auto gpus = base::parse_decimal(devices[0], kMostGpus);
  const bool has_tiles = devices.size() == 2;
  const auto tiles = base::parse_decimal(has_tiles ? devices[1] : "1", model::kMostTiles);
  if (!sockets || !cores || !threads || !gpus || !tiles || *tiles == 0 || devices.size() > 2 || *sockets == 0 ||
      *cores == 0 || *threads == 0)
    return fail();
  model::NodeShape node;
  const long all = *sockets * *cores;
  for (long core = 0; core < all; ++core) {
    model::CoreShape& entry = node.cores.emplace_back();
    entry.socket = entry.numa = static_cast<int>(core / *cores);
    for (long thread = 0; thread < *threads; ++thread) entry.cpus.push_back(static_cast<int>(core + thread * all));
  }
  for (long i = 0; i < *gpus; ++i) {
    model::GpuShape& gpu = node.gpus.emplace_back();
    if (has_tiles) gpu.vendor = model::GpuVendor::kIntel;
    gpu.index = static_cast<int>(i);
    gpu.tiles = static_cast<int>(*tiles);
    gpu.numa = static_cast<int>(i * *sockets / *gpus);
    for (const model::CoreShape& core : node.cores) {
      if (core.numa == gpu.numa) gpu.cpus.insert(gpu.cpus.end(), core.cpus.begin(), core.cpus.end());
    }
    std::ranges::sort(gpu.cpus);
  }
  return node;
}

bool is_node_shape(std::string_view text) {
  return !text.empty() && text.front() >= '0' && text.front() <= '9';
}

model::NodeShape read_node_shape(const std::string& root, const std::vector<int>& cpus) {
  struct Place {
    int package;
    int numa;
    int core;
    auto operator<=>(const Place&) const = default;
  };
  std::map<Place, model::CoreShape> cores;
  for (const int cpu : cpus) {
    const std::string directory = fmt::format("{}/cpu{}", root, cpu);
    const auto package = read_number(directory + "/topology/physical_package_id");
    const auto core = read_number(directory + "/topology/core_id");
    // Give unknown cores numbers above all valid ones, so that they cannot equal a known core's number.
    const Place place{package.value_or(0), numa_of(directory), core.value_or(base::kMaxCpu + 1 + cpu)};
    model::CoreShape& entry = cores[place];
    entry.socket = place.package;
    entry.numa = place.numa;
    entry.cpus.push_back(cpu);
  }
  model::NodeShape shape;
  for (auto& [place, core] : cores) {
    std::ranges::sort(core.cpus);
    shape.cores.push_back(std::move(core));
  }
  std::ranges::sort(shape.cores, {},
                    [](const model::CoreShape& core) { return std::tuple(core.socket, core.numa, core.cpus.front()); });
  return shape;
}

}  // namespace muster::cli::options
