// Deals GPUs to ranks, near their cores, and makes the mask variables.
// Read bind_node() at the end first, then dealt_order() with Dealer, then assign_gpus() and mask_variables().
#include "model/gpu_binding.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <span>

#include <fmt/format.h>

#include "base/strings.h"
#include "model/cpu_binding.h"
#include "model/device_id.h"
#include "model/gpu_choice.h"
#include "model/gpu_mask.h"
#include "model/intel_gpus.h"

namespace muster::model {
namespace {

constexpr const char* kByBus = "PCI_BUS_ID";

// The distance between a GPU and a rank's cores.
enum Distance { kSameNode = 0, kSameSocket = 1, kElsewhere = 2 };

bool is_near(const CoreShape& core, const GpuShape& gpu) {
  return gpu.cpus.empty() ? core.numa == gpu.numa : touches(core, gpu.cpus);
}

// Returns the distance between a GPU and the rank bound to `cpus`, which must be sorted. If the rank is not bound or
// the GPU's place is unknown, the result is kSameNode.
Distance distance(const NodeShape& node, const std::vector<int>& cpus, const GpuShape* gpu) {
  if (cpus.empty() || gpu == nullptr || (gpu->cpus.empty() && gpu->numa < 0)) return kSameNode;
  std::vector<int> sockets;
  for (const CoreShape& core : node.cores) {
    if (is_near(core, *gpu)) sockets.push_back(core.socket);
  }
  Distance best = kElsewhere;
  for (const CoreShape& core : node.cores) {
    if (!touches(core, cpus)) continue;
    if (is_near(core, *gpu)) return kSameNode;
    if (std::ranges::find(sockets, core.socket) != sockets.end()) best = kSameSocket;
  }
  return best;
}

// Deals one device to each taker. There must be at least as many devices as takers.
class Dealer {
 public:
  // indexed as distances[taker][device]
  explicit Dealer(const std::vector<std::vector<Distance>>& distances)
      : distances_(distances),
        device_of_(distances.size(), kNone),
        taker_of_(distances.empty() ? 0 : distances.front().size(), kNone) {}

  // Returns each taker's device.
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

  // Gives the taker a free device within `worst`. If none is free, it gives a device within `worst` whose present taker
  // can move to another device at most as far away.
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

// Returns the local ranks in the order in which shares are dealt to them. Ranks that share a GPU follow each other.
std::vector<std::size_t> sharing_order(std::size_t ranks, std::size_t devices) {
  std::vector<std::size_t> order(ranks);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t rank) { return rank % devices; });
  return order;
}

// Orders `devices` so that each group of `each` devices belongs to one rank, in rank order. Unused devices follow.
std::vector<VisibleGpu> dealt_order(const NodeShape& node, const std::vector<VisibleGpu>& devices, std::size_t each,
                                    const std::vector<RankBinding>& cores) {
  const std::size_t count = devices.size();
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
    for (const VisibleGpu& device : devices) {
      distances[taker].push_back(distance(node, of_group, device.gpu));
    }
  }
  std::vector<VisibleGpu> order;
  std::vector<bool> is_dealt(count, false);
  for (const std::size_t device : Dealer(distances).deal()) {
    order.push_back(devices[device]);
    is_dealt[device] = true;
  }
  for (std::size_t device = 0; device < count; ++device) {
    if (!is_dealt[device]) order.push_back(devices[device]);
  }
  return order;
}

bool is_by_index(const VisibleGpu& device) {
  return device.gpu != nullptr && device.name == fmt::format("{}", device.gpu->index);
}

// Orders the names of `dealt` so that entry i belongs to local rank i, also if ranks share GPUs. First come the first
// devices of all ranks, then the second ones, and so on. Unused devices come last.
std::vector<std::string> common_list(const std::vector<VisibleGpu>& dealt, std::size_t each, std::size_t ranks) {
  const std::size_t groups = std::min(ranks, dealt.size() / each);
  std::vector<std::string> names;
  for (std::size_t nth = 0; nth < each; ++nth) {
    for (std::size_t group = 0; group < groups; ++group) names.push_back(dealt[group * each + nth].name);
  }
  // If ranks share GPUs, leave out unused devices. Higher ranks would pick them by number, and they are too few for
  // all.
  for (std::size_t i = groups * each; i < dealt.size() && ranks <= groups; ++i) names.push_back(dealt[i].name);
  return names;
}

// Gives local rank i the i-th group of `each` devices of `dealt`. The rank sees only its group, or with `sees_all` all
// of them.
void assign_gpus(const std::vector<VisibleGpu>& dealt, const GpuChoice& choice, std::size_t each, bool sees_all,
                 const GpuMasks& masks, NodeBinding& binding) {
  const std::size_t ranks = binding.gpus.size();
  const std::size_t groups = dealt.size() / each;
  const bool by_index = std::ranges::any_of(dealt, is_by_index);
  const std::vector<std::string> common = common_list(dealt, each, ranks);
  binding.visible_gpus = static_cast<int>(dealt.size());
  for (const VisibleGpu& device : dealt) binding.dealt.push_back(device_id(choice.vendor, device));
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::size_t first = rank % groups * each;
    RankGpus& own = binding.gpus[rank];
    std::vector<std::string> names;
    for (std::size_t i = first; i < first + each; ++i) {
      names.push_back(dealt[i].name);
      if (dealt[i].gpu != nullptr) own.indices.push_back(dealt[i].gpu->index);
      own.devices.push_back(binding.dealt[i]);
    }
    if (!own.indices.empty()) own.index = own.indices.front();
    if (each == 1) own.tile = dealt[first].tile;
    if (sees_all) names = common;
    own.variables = mask_variables(choice.vendor, base::join(names, ","), names.size(), by_index, masks);
  }
}

// Returns the remark for --gpu-bind order if all GPUs are hidden and the user has not requested any.
std::string none_remark(const GpuChoice& choice) {
  if (choice.hidden_by.empty() || choice.is_meant) return {};
  return choice.hidden_by + ": no rank gets a GPU (--gpu-bind none if the ranks need none)";
}

constexpr const char* kPartsRemark =
    "a GPU there is divided (MIG), and CUDA shows a process one part only: each rank sees its own part as device 0, "
    "and set_device(local_rank) fails (--gpu-bind one if that is intended)";

}  // namespace

std::string crowd_remark(int ranks, int gpus, const Pinning& pinning) {
  if (gpus == 0 || ranks <= gpus || pinning.share_gpu) return {};
  std::string text = fmt::format("{} ranks but {} {}{}: some ranks share one", ranks, gpus,
                                 pinning.gpu_bind == GpuBind::kTile ? "tile" : "GPU", gpus == 1 ? "" : "s");
  if (pinning.gpu_bind == GpuBind::kOrder) {
    text += fmt::format(
        ", and set_device(local_rank) fails from local rank {} on, where local_rank % device_count() does not", gpus);
  }
  return text + " (--share-gpu if that is intended, --gpu-bind none if they need none)";
}

namespace {

void keep_allowed(const std::set<std::string>& allowed, GpuChoice& choice) {
  const auto erased = std::erase_if(
      choice.list, [&](const VisibleGpu& device) { return !allowed.contains(device_id(choice.vendor, device)); });
  if (erased > 0 && choice.list.empty()) choice.hidden_by = "other jobs have its GPUs";
}

}  // namespace

int count_gpus(const NodeShape& node, const GpuMasks& job_masks) {
  const auto most = most_ranks(node, {}, job_masks);
  return most.ok() ? *most : 0;
}

base::Result<int> most_ranks(const NodeShape& whole_node, const Pinning& job_pinning, const GpuMasks& job_masks) {
  const NodeShape node = with_described_gpus(whole_node, job_pinning);
  const GpuMasks masks = masks_in_force(node, job_masks);
  Pinning pinning = job_pinning;
  pinning.share_gpu = false;  // count GPUs as if each rank had its own
  // Count GPUs also if Muster sets no masks, because the ranks then use GPUs, too.
  const auto is_intel = [](const GpuShape& gpu) { return gpu.vendor == GpuVendor::kIntel; };
  const bool is_left_alone =
      pinning.gpu_bind == GpuBind::kNone || (pinning.gpu_bind == GpuBind::kOrder && pinning.gpus_per_rank == 0);
  if (pinning.gpu_bind == GpuBind::kNone) pinning.gpu_bind = GpuBind::kOrder;
  if (is_left_alone && std::ranges::all_of(node.gpus, is_intel)) pinning.gpu_bind = GpuBind::kOne;
  const auto all = choose_gpus(node, pinning, masks);
  if (!all.ok()) return is_left_alone ? base::Result<int>(0) : all.status();
  const auto fits = [&](std::size_t ranks) -> base::Status {
    MUSTER_RETURN_IF_ERROR(fit_gpus(*all, ranks, pinning).status());
    return bind_cpus(node, static_cast<int>(ranks), pinning).status();
  };
  std::size_t most = all->list.size() / gpus_for_each(pinning);
  while (most > 0 && !fits(most).ok()) --most;
  if (most > 0) return static_cast<int>(most);
  const base::Status why = fits(1);
  if (!why.ok() && !is_left_alone) return why;
  return 0;
}

std::vector<std::pair<std::string, std::string>> mask_variables(GpuVendor vendor, const std::string& list,
                                                                std::size_t count, bool by_index,
                                                                const GpuMasks& masks) {
  // Select the PCI bus's order for Muster's own numbers, because Level Zero otherwise uses its own order. Leave the
  // order alone if the numbers come from a mask that the user wrote in Level Zero's order.
  if (vendor == GpuVendor::kIntel) {
    std::vector<std::pair<std::string, std::string>> variables = {{"ZE_AFFINITY_MASK", list}};
    if (are_numbers_of_bus(masks)) variables.insert(variables.begin(), {"ZE_ENABLE_PCI_ID_DEVICE_ORDER", "1"});
    return variables;
  }
  if (vendor == GpuVendor::kNvidia) {
    // By default CUDA numbers GPUs by speed. Muster's indices follow the PCI bus, so select that order.
    if (by_index) return {{"CUDA_DEVICE_ORDER", kByBus}, {"CUDA_VISIBLE_DEVICES", list}};
    return {{"CUDA_VISIBLE_DEVICES", list}};
  }
  // HIP's masks count within ROCr's. Muster has already applied the user's, so set them to pass all devices here.
  std::vector<std::pair<std::string, std::string>> variables = {{"ROCR_VISIBLE_DEVICES", list}};
  std::vector<std::string> numbers;
  for (std::size_t i = 0; i < count; ++i) numbers.push_back(fmt::format("{}", i));
  const std::string all = base::join(numbers, ",");
  if (masks.hip) variables.emplace_back("HIP_VISIBLE_DEVICES", all);
  if (masks.cuda) variables.emplace_back("CUDA_VISIBLE_DEVICES", all);
  if (masks.ordinal) variables.emplace_back("GPU_DEVICE_ORDINAL", all);
  return variables;
}

base::Result<std::vector<std::string>> devices_of_job(const NodeShape& whole_node, const Pinning& pinning,
                                                      const GpuMasks& job_masks) {
  std::vector<std::string> ids;
  if (pinning.gpu_bind == GpuBind::kNone) return ids;
  // This function is called often, so copy the node only if GPUs are added to it.
  const std::optional<NodeShape> described =
      pinning.gpus > 0 ? std::optional(with_described_gpus(whole_node, pinning)) : std::nullopt;
  const NodeShape& node = described ? *described : whole_node;
  MUSTER_ASSIGN_OR_RETURN(const GpuChoice choice, choose_gpus(node, pinning, masks_in_force(node, job_masks)));
  for (const VisibleGpu& device : choice.list) ids.push_back(device_id(choice.vendor, device));
  return ids;
}

base::Result<NodeBinding> bind_node(const NodeShape& whole_node, int local_size, const Pinning& pinning,
                                    const GpuMasks& job_masks, const std::set<std::string>* allowed,
                                    const std::vector<RankBinding>* cores) {
  const NodeShape node = with_described_gpus(whole_node, pinning);
  const GpuMasks masks = masks_in_force(node, job_masks);
  const auto ranks = static_cast<std::size_t>(std::max(local_size, 0));
  // Choose GPUs before cores. A site has as many CPU lists as GPUs. If there are too many ranks for both, the error
  // should say how many ranks the GPUs allow and how to go without GPUs.
  GpuChoice choice;
  if (pinning.gpu_bind != GpuBind::kNone && ranks > 0) {
    MUSTER_ASSIGN_OR_RETURN(GpuChoice all, choose_gpus(node, pinning, masks));
    if (allowed != nullptr) keep_allowed(*allowed, all);
    MUSTER_ASSIGN_OR_RETURN(choice, fit_gpus(all, ranks, pinning));
  }
  NodeBinding binding;
  if (cores != nullptr) {
    binding.cores = *cores;
  } else {
    MUSTER_ASSIGN_OR_RETURN(binding.cores, bind_cpus(node, local_size, pinning));
  }
  binding.gpus.resize(ranks);
  if (choice.list.empty()) {
    binding.remark = none_remark(choice);
    return binding;
  }
  const std::size_t each = gpus_for_each(pinning);
  if (cores == nullptr && pinning.bind_to != BindTo::kDepth && pinning.bind_to != BindTo::kList) {
    const std::vector<RankBinding> shares = binding.cores;
    const std::vector<std::size_t> order = sharing_order(ranks, choice.list.size() / each);
    for (std::size_t i = 0; i < ranks; ++i) binding.cores[order[i]] = shares[i];
  }
  const bool is_order = pinning.gpu_bind == GpuBind::kOrder;
  const bool is_parts = has_parts(choice.list);
  const bool is_nearest = pinning.gpu_order == GpuOrder::kNearest;
  assign_gpus(is_nearest ? dealt_order(node, choice.list, each, binding.cores) : choice.list, choice, each,
              is_order && !is_parts, masks, binding);
  binding.remark = is_order && is_parts && ranks > 1 ? kPartsRemark : choice.remark;
  return binding;
}

}  // namespace muster::model
