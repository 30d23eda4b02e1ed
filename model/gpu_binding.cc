#include "model/gpu_binding.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <span>

#include <fmt/format.h>

#include "base/strings.h"
#include "model/cpu_binding.h"
#include "model/gpu_mask.h"
#include "model/intel_gpus.h"

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

bool has_gpus(const NodeShape& node, GpuVendor vendor) {
  return std::ranges::any_of(node.gpus, [&](const GpuShape& gpu) { return gpu.vendor == vendor; });
}

std::optional<std::string> first(const std::optional<std::string>& a, const std::optional<std::string>& b) {
  return a ? a : b;
}

Devices devices_of(const NodeShape& node, const GpuMasks& job_masks) {
  const auto cuda = first(job_masks.cuda, node.gpu_masks.cuda);
  if (has_gpus(node, GpuVendor::kNvidia)) return {GpuVendor::kNvidia, visible_gpus(node, GpuVendor::kNvidia, cuda)};
  // HIP reads CUDA's variable as its own.
  if (cuda || job_masks.hip || node.gpu_masks.hip) return {};
  return {GpuVendor::kAmd, visible_gpus(node, GpuVendor::kAmd, first(job_masks.rocr, node.gpu_masks.rocr))};
}

base::Result<Devices> devices_to_deal(const NodeShape& node, const Pinning& pinning, const GpuMasks& job_masks) {
  const bool has_others = has_gpus(node, GpuVendor::kNvidia) || has_gpus(node, GpuVendor::kAmd);
  const bool is_intel = pinning.gpu_bind == GpuBind::kTile || (pinning.gpu_bind == GpuBind::kOne && !has_others);
  if (!is_intel) return devices_of(node, job_masks);
  Devices devices{.vendor = GpuVendor::kIntel, .list = {}};
  const GpuMasks masks{.ze = first(job_masks.ze, node.gpu_masks.ze),
                       .ze_hierarchy = first(job_masks.ze_hierarchy, node.gpu_masks.ze_hierarchy)};
  MUSTER_ASSIGN_OR_RETURN(devices.list, intel_devices(node, pinning.gpu_bind, masks));
  // A host without any GPU binds none, as with `one`: a site's template says `tile` of all of its jobs.
  if (!devices.list.empty() || pinning.gpu_bind != GpuBind::kTile || node.gpus.empty()) return devices;
  return base::error(base::Code::kInvalidArgument,
                     "--gpu-bind tile: the kernel shows no Intel GPU; --gpu-tiles 6x2 says what there is");
}

// The devices as --gpu-order has them; not for kNearest.
base::Result<std::vector<VisibleGpu>> chosen_order(const std::vector<VisibleGpu>& devices, const Pinning& pinning) {
  std::vector<VisibleGpu> order = devices;
  if (pinning.gpu_order == GpuOrder::kReverse) std::ranges::reverse(order);
  if (pinning.gpu_order == GpuOrder::kRoundRobin) {
    std::ranges::stable_sort(order, {}, [](const VisibleGpu& device) { return device.tile.value_or(0); });
  }
  if (pinning.gpu_order != GpuOrder::kList) return order;
  order.clear();
  for (const int index : pinning.gpu_list) {
    const std::size_t before = order.size();
    std::ranges::copy_if(devices, std::back_inserter(order),
                         [&](const VisibleGpu& device) { return device.gpu != nullptr && device.gpu->index == index; });
    if (order.size() > before) continue;
    std::vector<int> there;
    for (const VisibleGpu& device : devices) {
      if (device.gpu != nullptr) there.push_back(device.gpu->index);
    }
    return base::error(base::Code::kInvalidArgument, "--gpu-order names GPU {}, and ranks may use {}", index,
                       there.empty() ? "none by number" : format_cpu_list(there));
  }
  return order;
}

// CUDA shows a process one part of a divided GPU, and no whole one beside it: whole ones alone, where they are enough
// or only they can be had.
void prefer_whole_gpus(std::size_t ranks, std::size_t each, std::vector<VisibleGpu>& devices) {
  const auto is_part = [](const VisibleGpu& device) { return is_mig_name(device.name); };
  const std::size_t whole = devices.size() - static_cast<std::size_t>(std::ranges::count_if(devices, is_part));
  if (whole >= ranks * each || (each > 1 && whole >= each)) std::erase_if(devices, is_part);
}

// The local ranks in the order in which shares are dealt to them: those that share a GPU one after the other.
std::vector<std::size_t> sharing_order(std::size_t ranks, std::size_t devices) {
  std::vector<std::size_t> order(ranks);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t rank) { return rank % devices; });
  return order;
}

// devices.list in the order in which groups of `each` of them are the ranks', the unused ones after them.
std::vector<VisibleGpu> dealt_order(const NodeShape& node, const Devices& devices, std::size_t each,
                                    const std::vector<RankBinding>& cores) {
  const std::size_t count = devices.list.size();
  const std::size_t groups = std::min(cores.size(), count / each);
  std::vector<std::vector<int>> cpus(groups);
  for (std::size_t rank = 0; rank < cores.size(); ++rank) {
    std::vector<int>& of_group = cpus[rank % groups];
    of_group.insert(of_group.end(), cores[rank].cpus.begin(), cores[rank].cpus.end());
  }
  std::vector<std::vector<Distance>> distances(groups * each);
  for (std::size_t taker = 0; taker < distances.size(); ++taker) {
    std::vector<int>& of_group = cpus[taker / each];
    std::ranges::sort(of_group);
    for (const VisibleGpu& device : devices.list) {
      distances[taker].push_back(distance(node, of_group, device.gpu));
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
  // Level Zero counts as it likes unless it is told to go by the PCI bus.
  if (vendor == GpuVendor::kIntel) return {{"ZE_ENABLE_PCI_ID_DEVICE_ORDER", "1"}, {"ZE_AFFINITY_MASK", list}};
  // CUDA counts by speed unless it is told otherwise; our indices are those of the PCI bus.
  if (by_index) return {{"CUDA_DEVICE_ORDER", kByBus}, {"CUDA_VISIBLE_DEVICES", list}};
  return {{"CUDA_VISIBLE_DEVICES", list}};
}

// Local rank i has the i-th group of `each` of `dealt`, and sees it alone or with all others.
void give_gpus(const std::vector<VisibleGpu>& dealt, GpuVendor vendor, std::size_t each, bool sees_all,
               NodeBinding& binding) {
  const std::size_t groups = dealt.size() / each;
  const bool by_index = std::ranges::any_of(
      dealt, [](const VisibleGpu& device) { return !is_mig_name(device.name) && device.gpu->uuid.empty(); });
  std::vector<std::string> names;
  for (const VisibleGpu& device : dealt) names.push_back(device.name);
  binding.visible_gpus = static_cast<int>(dealt.size());
  for (std::size_t rank = 0; rank < binding.gpus.size(); ++rank) {
    const std::size_t first = rank % groups * each;
    RankGpus& own = binding.gpus[rank];
    for (std::size_t i = first; i < first + each; ++i) {
      if (dealt[i].gpu != nullptr) own.indices.push_back(dealt[i].gpu->index);
    }
    if (!own.indices.empty()) own.index = own.indices.front();
    if (each == 1) own.tile = dealt[first].tile;
    const std::span<const std::string> seen(names);
    own.variables = variables_of(vendor, base::join(sees_all ? seen : seen.subspan(first, each), ","), by_index);
  }
}

std::string devices_word(std::size_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// Whoever has said what GPUs each rank is to have gets no fewer. `each`: devices for a rank.
base::Status check_enough(std::size_t ranks, std::size_t devices, std::size_t each, const Pinning& pinning) {
  const char* const noun = pinning.gpu_bind == GpuBind::kTile ? "tile" : "GPU";
  if (devices < each) {
    return base::error(base::Code::kInvalidArgument, "--gpus-per-rank {}: ranks may use {} there", each,
                       devices_word(devices, noun));
  }
  const bool were_asked_for = pinning.gpu_bind != GpuBind::kOrder || pinning.gpus_per_rank > 0;
  if (!were_asked_for || pinning.share_gpu || ranks <= devices / each) return base::ok_status();
  return base::error(base::Code::kInvalidArgument,
                     "{} ranks with {} of their own, and ranks may use {}: fewer ranks, --share-gpu where several may "
                     "have the same, or --gpu-bind none",
                     ranks, devices_word(each, noun), devices_word(devices, noun));
}

}  // namespace

int count_gpus(const NodeShape& node, const GpuMasks& job_masks) {
  return static_cast<int>(devices_of(node, job_masks).list.size());
}

int count_all_gpus(const NodeShape& node) {
  int count = 0;
  for (const GpuShape& gpu : node.gpus) count += gpu.is_divided ? static_cast<int>(gpu.parts.size()) : 1;
  return count;
}

base::Result<NodeBinding> bind_node(const NodeShape& given_node, int local_size, const Pinning& pinning,
                                    const GpuMasks& job_masks) {
  const NodeShape node = with_described_gpus(given_node, pinning);
  NodeBinding binding;
  MUSTER_ASSIGN_OR_RETURN(binding.cores, bind_cpus(node, local_size, pinning));
  const std::size_t ranks = binding.cores.size();
  binding.gpus.resize(ranks);
  if (pinning.gpu_bind == GpuBind::kNone || ranks == 0) return binding;
  MUSTER_ASSIGN_OR_RETURN(Devices devices, devices_to_deal(node, pinning, job_masks));
  if (devices.list.empty()) {
    if (pinning.gpus_per_rank == 0) return binding;
    return base::error(base::Code::kInvalidArgument,
                       "--gpus-per-rank {}: no GPU is seen there that ranks can be given; muster doctor says what is",
                       pinning.gpus_per_rank);
  }
  if (pinning.gpu_order != GpuOrder::kNearest) {
    MUSTER_ASSIGN_OR_RETURN(devices.list, chosen_order(devices.list, pinning));
  }
  const auto each = static_cast<std::size_t>(std::max(pinning.gpus_per_rank, 1));
  if (pinning.gpu_order != GpuOrder::kList) prefer_whole_gpus(ranks, each, devices.list);
  const bool has_mig =
      std::ranges::any_of(devices.list, [](const VisibleGpu& device) { return is_mig_name(device.name); });
  if (has_mig && each > 1) {
    return base::error(base::Code::kInvalidArgument,
                       "--gpus-per-rank {}: a GPU there is divided (MIG), and CUDA shows a process one part of it",
                       each);
  }
  MUSTER_RETURN_IF_ERROR(check_enough(ranks, devices.list.size(), each, pinning));
  if (pinning.bind_to != BindTo::kDepth && pinning.bind_to != BindTo::kList) {
    const std::vector<RankBinding> shares = binding.cores;
    const std::vector<std::size_t> order = sharing_order(ranks, devices.list.size() / each);
    for (std::size_t i = 0; i < ranks; ++i) binding.cores[order[i]] = shares[i];
  }
  const bool is_nearest = pinning.gpu_order == GpuOrder::kNearest;
  const bool sees_all = pinning.gpu_bind == GpuBind::kOrder && !has_mig;
  give_gpus(is_nearest ? dealt_order(node, devices, each, binding.cores) : devices.list, devices.vendor, each, sees_all,
            binding);
  return binding;
}

}  // namespace muster::model
