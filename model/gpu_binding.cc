#include "model/gpu_binding.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include <fmt/format.h>

#include "base/strings.h"
#include "model/gpu_mask.h"

namespace muster::model {
namespace {

constexpr const char* kByBus = "PCI_BUS_ID";

// How far a GPU is from a rank's cores.
enum Distance { kSameNode = 0, kSameSocket = 1, kElsewhere = 2 };

struct Devices {
  GpuVendor vendor = GpuVendor::kNvidia;
  std::vector<VisibleGpu> list;
};

bool intersects(const std::vector<int>& sorted, const std::vector<int>& cpus) {
  return std::ranges::any_of(cpus, [&](int cpu) { return std::ranges::binary_search(sorted, cpu); });
}

bool is_near(const CoreShape& core, const GpuShape& gpu) {
  return gpu.cpus.empty() ? core.numa == gpu.numa : intersects(gpu.cpus, core.cpus);
}

// `cpus`: sorted. Whoever is not bound, or whose GPU may be anywhere, is near it.
Distance distance(const NodeShape& node, const std::vector<int>& cpus, const GpuShape* gpu) {
  if (cpus.empty() || gpu == nullptr || (gpu->cpus.empty() && gpu->numa < 0)) return kSameNode;
  std::vector<int> sockets;
  for (const CoreShape& core : node.cores) {
    if (is_near(core, *gpu)) sockets.push_back(core.socket);
  }
  Distance best = kElsewhere;
  for (const CoreShape& core : node.cores) {
    if (!intersects(cpus, core.cpus)) continue;
    if (is_near(core, *gpu)) return kSameNode;
    if (std::ranges::find(sockets, core.socket) != sockets.end()) best = kSameSocket;
  }
  return best;
}

// Deals devices to takers, a taker one each; there are at least as many devices.
class Dealer {
 public:
  // distances[taker][device]
  explicit Dealer(const std::vector<std::vector<Distance>>& distances)
      : distances_(distances),
        device_of_(distances.size(), kNone),
        taker_of_(distances.empty() ? 0 : distances.front().size(), kNone) {}

  // For each taker its device.
  std::vector<std::size_t> deal() {
    for (const Distance worst : {kSameNode, kSameSocket, kElsewhere}) {
      for (std::size_t taker = 0; taker < device_of_.size(); ++taker) {
        if (device_of_[taker] != kNone) continue;
        std::vector<bool> asked(taker_of_.size(), false);
        seat(taker, worst, asked);
      }
    }
    return device_of_;
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};

  // A free device within `worst`, else one whose taker finds another that is no farther for him.
  bool seat(std::size_t taker, Distance worst, std::vector<bool>& asked) {
    for (std::size_t device = 0; device < taker_of_.size(); ++device) {
      if (distances_[taker][device] <= worst && taker_of_[device] == kNone) return take(taker, device);
    }
    for (std::size_t device = 0; device < taker_of_.size(); ++device) {
      if (distances_[taker][device] > worst || asked[device]) continue;
      asked[device] = true;
      const std::size_t other = taker_of_[device];
      if (seat(other, distances_[other][device], asked)) return take(taker, device);
    }
    return false;
  }

  bool take(std::size_t taker, std::size_t device) {
    device_of_[taker] = device;
    taker_of_[device] = taker;
    return true;
  }

  const std::vector<std::vector<Distance>>& distances_;
  std::vector<std::size_t> device_of_;
  std::vector<std::size_t> taker_of_;
};

Devices devices_of(const NodeShape& node, const GpuMasks& job_masks) {
  const auto first = [](const std::optional<std::string>& a, const std::optional<std::string>& b) { return a ? a : b; };
  const auto cuda = first(job_masks.cuda, node.gpu_masks.cuda);
  const bool has_nvidia =
      std::ranges::any_of(node.gpus, [](const GpuShape& gpu) { return gpu.vendor == GpuVendor::kNvidia; });
  if (has_nvidia) return {GpuVendor::kNvidia, visible_gpus(node, GpuVendor::kNvidia, cuda)};
  // HIP reads CUDA's variable as its own.
  if (cuda || job_masks.hip || node.gpu_masks.hip) return {};
  return {GpuVendor::kAmd, visible_gpus(node, GpuVendor::kAmd, first(job_masks.rocr, node.gpu_masks.rocr))};
}

// The local ranks in the order in which shares are dealt to them: those that share a GPU one after the other.
std::vector<std::size_t> sharing_order(std::size_t ranks, std::size_t devices) {
  std::vector<std::size_t> order(ranks);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t rank) { return rank % devices; });
  return order;
}

// devices.list in the order in which `takers` groups of ranks have them, the unused ones after them.
std::vector<VisibleGpu> dealt_order(const NodeShape& node, const Devices& devices,
                                    const std::vector<RankBinding>& cores) {
  const std::size_t count = devices.list.size();
  const std::size_t takers = std::min(cores.size(), count);
  std::vector<std::vector<int>> cpus(takers);
  for (std::size_t rank = 0; rank < cores.size(); ++rank) {
    std::vector<int>& of_taker = cpus[rank % count];
    of_taker.insert(of_taker.end(), cores[rank].cpus.begin(), cores[rank].cpus.end());
  }
  std::vector<std::vector<Distance>> distances(takers);
  for (std::size_t taker = 0; taker < takers; ++taker) {
    std::ranges::sort(cpus[taker]);
    for (const VisibleGpu& device : devices.list) {
      distances[taker].push_back(distance(node, cpus[taker], device.gpu));
    }
  }
  std::vector<VisibleGpu> order;
  std::vector<bool> is_dealt(count, false);
  for (const std::size_t device : Dealer(distances).deal()) {
    order.push_back(devices.list[device]);
    is_dealt[device] = true;
  }
  for (std::size_t device = 0; device < count; ++device) {
    if (!is_dealt[device]) order.push_back(devices.list[device]);
  }
  return order;
}

std::vector<std::pair<std::string, std::string>> variables_of(GpuVendor vendor, const std::string& list,
                                                              bool by_index) {
  if (vendor == GpuVendor::kAmd) return {{"ROCR_VISIBLE_DEVICES", list}};
  // CUDA counts by speed unless it is told otherwise; our indices are those of the PCI bus.
  if (by_index) return {{"CUDA_DEVICE_ORDER", kByBus}, {"CUDA_VISIBLE_DEVICES", list}};
  return {{"CUDA_VISIBLE_DEVICES", list}};
}

}  // namespace

int count_gpus(const NodeShape& node, const GpuMasks& job_masks) {
  return static_cast<int>(devices_of(node, job_masks).list.size());
}

NodeBinding bind_node(const NodeShape& node, int local_size, BindTo bind_to, GpuBind gpu_bind,
                      const GpuMasks& job_masks) {
  NodeBinding binding;
  binding.cores = bind_ranks(node, local_size, bind_to);
  const std::size_t ranks = binding.cores.size();
  binding.gpus.resize(ranks);
  if (gpu_bind == GpuBind::kNone || ranks == 0) return binding;
  const Devices devices = devices_of(node, job_masks);
  const std::size_t count = devices.list.size();
  const bool has_mig =
      std::ranges::any_of(devices.list, [](const VisibleGpu& device) { return is_mig_name(device.name); });
  if (count == 0 || (has_mig && gpu_bind == GpuBind::kOrder)) return binding;
  const std::vector<RankBinding> shares = binding.cores;
  const std::vector<std::size_t> order = sharing_order(ranks, count);
  for (std::size_t i = 0; i < ranks; ++i) binding.cores[order[i]] = shares[i];

  const std::vector<VisibleGpu> dealt = dealt_order(node, devices, binding.cores);
  const bool by_index = std::ranges::any_of(
      dealt, [](const VisibleGpu& device) { return !is_mig_name(device.name) && device.gpu->uuid.empty(); });
  std::vector<std::string> names;
  for (const VisibleGpu& device : dealt) names.push_back(device.name);
  binding.visible_gpus = static_cast<int>(count);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const VisibleGpu& own = dealt[rank % count];
    if (own.gpu != nullptr) binding.gpus[rank].index = own.gpu->index;
    const std::string list = gpu_bind == GpuBind::kOne ? own.name : base::join(names, ",");
    binding.gpus[rank].variables = variables_of(devices.vendor, list, by_index);
  }
  return binding;
}

}  // namespace muster::model
