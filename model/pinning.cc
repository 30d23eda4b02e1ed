#include "model/pinning.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/cpu_set.h"
#include "base/strings.h"

namespace muster::model {
namespace {

using base::Status;

constexpr std::string_view kList = "list:";
constexpr std::size_t kMostListed = 65'536;  // CPUs in all lists together
constexpr std::size_t kLongestShown = 80;

constexpr std::pair<std::string_view, BindTo> kBindings[] = {{"share", BindTo::kShare},   {"none", BindTo::kNone},
                                                             {"core", BindTo::kCore},     {"numa", BindTo::kNuma},
                                                             {"socket", BindTo::kSocket}, {"depth", BindTo::kDepth}};
constexpr std::pair<std::string_view, GpuOrder> kOrders[] = {
    {"nearest", GpuOrder::kNearest}, {"reverse", GpuOrder::kReverse}, {"round-robin", GpuOrder::kRoundRobin}};

std::string shown(std::string_view text) {
  return base::printable(text.substr(0, kLongestShown));
}

Status parse_cpu_lists(std::string_view text, std::vector<std::vector<int>>& lists) {
  std::size_t listed = 0;
  for (const std::string_view word : base::split(text, ':')) {
    auto cpus = base::parse_number_list(word, base::kMaxCpu);
    if (!cpus || cpus->empty()) {
      return base::invalid_argument("'{}' is not a list of CPUs: write one for each local rank, as list:0-7:8-15",
                                    shown(word));
    }
    listed += cpus->size();
    if (listed > kMostListed) {
      return base::invalid_argument("'{}' lists more than {} CPUs", shown(text), kMostListed);
    }
    lists.push_back(std::move(*cpus));
  }
  return base::ok_status();
}

}  // namespace

Status parse_bind_to(std::string_view text, Pinning& pinning) {
  if (text.starts_with(kList)) {
    std::vector<std::vector<int>> lists;
    MUSTER_RETURN_IF_ERROR(parse_cpu_lists(text.substr(kList.size()), lists));
    pinning.bind_to = BindTo::kList;
    pinning.cpu_lists = std::move(lists);
    return base::ok_status();
  }
  for (const auto& [word, meaning] : kBindings) {
    if (text != word) continue;
    pinning.bind_to = meaning;
    pinning.cpu_lists.clear();
    return base::ok_status();
  }
  return base::invalid_argument("'{}' is not one of share, none, core, numa, socket, depth, list:CPUS:CPUS",
                                shown(text));
}

std::string bind_to_word(const Pinning& pinning) {
  if (pinning.bind_to == BindTo::kList) {
    std::vector<std::string> lists;
    for (const std::vector<int>& cpus : pinning.cpu_lists) lists.push_back(format_cpu_list(cpus));
    return std::string(kList) + base::join(lists, ":");
  }
  const auto* const found = std::ranges::find(kBindings, pinning.bind_to, &std::pair<std::string_view, BindTo>::second);
  return std::string(found->first);
}

Status parse_reserved_cores(std::string_view text, Pinning& pinning) {
  auto cores = base::parse_number_list(text, base::kMaxCpu);
  if (!cores) {
    return base::invalid_argument("'{}' is not a list of cores: write the number of each core's first thread, as 0,52",
                                  shown(text));
  }
  pinning.reserved_cores = std::move(*cores);
  return base::ok_status();
}

Status parse_gpu_order(std::string_view text, Pinning& pinning) {
  for (const auto& [word, meaning] : kOrders) {
    if (text != word) continue;
    pinning.gpu_order = meaning;
    pinning.gpu_list.clear();
    return base::ok_status();
  }
  std::vector<int> list;
  for (const std::string_view word : base::split(text, ',')) {
    const auto number = base::parse_decimal(word, kMostGpus - 1);
    if (!number) {
      return base::invalid_argument("'{}' is not nearest, reverse, round-robin, or numbers of GPUs as 3,2,1,0",
                                    shown(text));
    }
    if (std::ranges::find(list, static_cast<int>(*number)) != list.end()) {
      return base::invalid_argument("'{}' names GPU {} twice", shown(text), *number);
    }
    list.push_back(static_cast<int>(*number));
  }
  pinning.gpu_order = GpuOrder::kList;
  pinning.gpu_list = std::move(list);
  return base::ok_status();
}

std::string gpu_order_word(const Pinning& pinning) {
  if (pinning.gpu_order == GpuOrder::kList) return fmt::format("{}", fmt::join(pinning.gpu_list, ","));
  const auto* const found =
      std::ranges::find(kOrders, pinning.gpu_order, &std::pair<std::string_view, GpuOrder>::second);
  return std::string(found->first);
}

Status parse_gpu_tiles(std::string_view text, Pinning& pinning) {
  const auto parts = base::split(text, 'x');
  const auto gpus = parts.size() == 2 ? base::parse_decimal(parts[0], kMostGpus) : std::nullopt;
  const auto tiles = parts.size() == 2 ? base::parse_decimal(parts[1], kMostTiles) : std::nullopt;
  if (!gpus || !tiles || *gpus == 0 || *tiles == 0) {
    return base::invalid_argument("'{}' is not GPUSxTILES, as 6x2 for six GPUs of two tiles", shown(text));
  }
  pinning.gpus = static_cast<int>(*gpus);
  pinning.tiles = static_cast<int>(*tiles);
  return base::ok_status();
}

std::string gpu_tiles_word(const Pinning& pinning) {
  return pinning.gpus == 0 ? "" : fmt::format("{}x{}", pinning.gpus, pinning.tiles);
}

}  // namespace muster::model
