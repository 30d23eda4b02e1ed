// The choice of the GPUs that can be dealt: vendor, masks, order, and number.
// Read choose_gpus() and fit_gpus() at the end first, then the choices for each vendor.
#include "model/gpu_choice.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/strings.h"
#include "model/intel_gpus.h"

namespace muster::model {
namespace {

constexpr std::size_t kMostShown = 80;  // messages show at most this much of a mask

std::ptrdiff_t count_of(const NodeShape& node, GpuVendor vendor) {
  return std::ranges::count(node.gpus, vendor, &GpuShape::vendor);
}

std::string devices_word(std::size_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// Returns text such as "CUDA_VISIBLE_DEVICES is 'all'". Messages may show masks, because they hold no secrets as other
// variables may (docs/adr/0026).
std::string mask_text(const char* name, const std::string& mask) {
  const std::string shown = base::printable(mask.substr(0, kMostShown));
  return fmt::format("{} is '{}{}'", name, shown, mask.size() > kMostShown ? "…" : "");
}

// Returns true for a mask without devices: the forms of CUDA and ROCr, and the one that Slurm sets for a step without
// GPUs.
bool means_none(const std::string& mask) {
  return mask.empty() || mask == "-1" || mask == "NoDevFiles";
}

void hide(const char* name, const std::string& mask, const std::string& of, GpuChoice& choice) {
  choice.hidden_by = fmt::format("{}, which leaves none of {}", mask_text(name, mask), of);
  choice.is_meant = means_none(mask);
}

GpuChoice nvidia_choice(const NodeShape& node, const GpuMasks& masks) {
  GpuChoice choice;
  const MaskNumbers numbers = cuda_numbers(node, masks);
  choice.list = visible_gpus(node, GpuVendor::kNvidia, masks.cuda, numbers);
  const auto is_number = [](const VisibleGpu& device) { return device.gpu == nullptr && !is_mig_name(device.name); };
  if (std::ranges::any_of(choice.list, is_number)) {
    choice.remark = fmt::format(
        "{}, and its GPUs differ: CUDA numbers them by speed, so ranks get the numbers in this order, whatever GPU is "
        "near (with CUDA_DEVICE_ORDER=PCI_BUS_ID the numbers are those of nvidia-smi)",
        mask_text("CUDA_VISIBLE_DEVICES", *masks.cuda));
  }
  if (!choice.list.empty()) return choice;
  const auto count = static_cast<std::size_t>(count_of(node, GpuVendor::kNvidia));
  const std::string there = "its " + devices_word(count, "GPU");
  if (masks.cuda) {
    hide("CUDA_VISIBLE_DEVICES", *masks.cuda, there, choice);
  } else {
    choice.hidden_by =
        fmt::format("{} {} divided (MIG), into no parts that can be named", there, count == 1 ? "is" : "are");
  }
  return choice;
}

GpuChoice amd_choice(const NodeShape& node, const GpuMasks& masks) {
  GpuChoice choice{.vendor = GpuVendor::kAmd, .list = visible_amd_gpus(node, masks)};
  if (!choice.list.empty() || count_of(node, GpuVendor::kAmd) == 0) return choice;
  const std::vector<VisibleGpu> pool = visible_gpus(node, GpuVendor::kAmd, masks.rocr);
  const std::string there = "its " + devices_word(static_cast<std::size_t>(count_of(node, GpuVendor::kAmd)), "GPU");
  if (pool.empty()) {
    hide("ROCR_VISIBLE_DEVICES", masks.rocr.value_or(""), there, choice);
    return choice;
  }
  const std::string of = masks.rocr ? fmt::format("the {} that ROCR_VISIBLE_DEVICES does", pool.size()) : there;
  if (masks.hip && !masks.hip->empty()) {
    hide("HIP_VISIBLE_DEVICES", *masks.hip, of, choice);
  } else {
    hide("CUDA_VISIBLE_DEVICES", masks.cuda.value_or(""), of, choice);
  }
  return choice;
}

base::Result<GpuChoice> intel_choice(const NodeShape& node, GpuBind gpu_bind, const GpuMasks& masks) {
  GpuChoice choice{.vendor = GpuVendor::kIntel};
  MUSTER_ASSIGN_OR_RETURN(choice.list, intel_devices(node, gpu_bind, masks));
  // A host without any GPU is no error, as with `one`, because a site's template may set `tile` for all jobs.
  if (!choice.list.empty() || gpu_bind != GpuBind::kTile || node.gpus.empty()) return choice;
  return base::invalid_argument(
      "--gpu-bind tile: the kernel shows no Intel GPU; describe the GPUs, as --gpu-tiles 6x2");
}

// Returns the devices in the order of --gpu-order. Do not call it for kNearest.
base::Result<std::vector<VisibleGpu>> chosen_order(const std::vector<VisibleGpu>& devices, const Pinning& pinning) {
  std::vector<VisibleGpu> order = devices;
  if (pinning.gpu_order == GpuOrder::kReverse) std::ranges::reverse(order);
  if (pinning.gpu_order == GpuOrder::kRoundRobin) {
    // Sort by the position of a tile or part within its GPU.
    std::map<const GpuShape*, int> met;
    std::vector<std::pair<int, VisibleGpu>> places;
    for (VisibleGpu& device : order) {
      const int place = device.tile ? *device.tile : device.gpu != nullptr ? met[device.gpu]++ : 0;
      places.emplace_back(place, std::move(device));
    }
    std::ranges::stable_sort(places, {}, &std::pair<int, VisibleGpu>::first);
    std::ranges::transform(places, order.begin(), [](auto& placed) { return std::move(placed.second); });
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
    return base::invalid_argument("--gpu-order names GPU {}, but ranks may use {}", index,
                                  there.empty() ? "none by number" : format_cpu_list(there));
  }
  return order;
}

// If the user says which GPUs each rank gets, fewer GPUs are an error. `each` is the number of devices for a rank.
base::Status check_enough(std::size_t ranks, std::size_t devices, std::size_t each, const Pinning& pinning) {
  const char* const noun = pinning.gpu_bind == GpuBind::kTile ? "tile" : "GPU";
  if (devices < each) {
    return base::invalid_argument("--gpus-per-rank {}: ranks may use only {} on that host", each,
                                  devices_word(devices, noun));
  }
  const bool were_asked_for = pinning.gpu_bind != GpuBind::kOrder || pinning.gpus_per_rank > 0;
  if (!were_asked_for || pinning.share_gpu || ranks <= devices / each) return base::ok_status();
  return base::invalid_argument(
      "{} ranks need {} each, but ranks may use {}: use fewer ranks, --share-gpu if several may share one, or "
      "--gpu-bind none",
      ranks, devices_word(each, noun), devices_word(devices, noun));
}

// If ranks should have GPUs of their own, having none is an error, unless the host has none.
base::Status check_none(const GpuChoice& choice, const Pinning& pinning) {
  const std::string option = pinning.gpus_per_rank > 0 ? fmt::format("--gpus-per-rank {}", pinning.gpus_per_rank)
                                                       : std::string("--gpu-bind one");
  if (pinning.gpus_per_rank == 0 && (pinning.gpu_bind == GpuBind::kOrder || choice.hidden_by.empty())) {
    return base::ok_status();
  }
  if (choice.hidden_by.empty()) {
    return base::invalid_argument("{}: that host shows no GPU that ranks can use; muster doctor shows what it has",
                                  option);
  }
  return base::invalid_argument("{}: {} (--gpu-bind none if the ranks need none)", option, choice.hidden_by);
}

}  // namespace

GpuMasks masks_in_force(const NodeShape& node, const GpuMasks& job_masks) {
  GpuMasks masks = node.gpu_masks;
  set_gpu_masks(gpu_mask_variables(job_masks), masks);
  return masks;
}

base::Result<GpuChoice> choose_gpus(const NodeShape& node, const Pinning& pinning, const GpuMasks& masks) {
  const bool has_nvidia = count_of(node, GpuVendor::kNvidia) > 0;
  const bool has_others = has_nvidia || count_of(node, GpuVendor::kAmd) > 0;
  const bool is_intel = pinning.gpu_bind == GpuBind::kTile || (pinning.gpu_bind == GpuBind::kOne && !has_others);
  GpuChoice choice;
  if (is_intel) {
    MUSTER_ASSIGN_OR_RETURN(choice, intel_choice(node, pinning.gpu_bind, masks));
  } else if (!has_others && !node.gpus.empty() && pinning.gpus_per_rank > 0) {
    return base::invalid_argument(
        "--gpus-per-rank {}: its GPUs are Intel's, whose mask cannot order them: add --gpu-bind one or tile",
        pinning.gpus_per_rank);
  } else {
    choice = has_nvidia ? nvidia_choice(node, masks) : amd_choice(node, masks);
  }
  if (choice.list.empty() || pinning.gpu_order == GpuOrder::kNearest) return choice;
  MUSTER_ASSIGN_OR_RETURN(choice.list, chosen_order(choice.list, pinning));
  return choice;
}

base::Result<GpuChoice> fit_gpus(const GpuChoice& all, std::size_t ranks, const Pinning& pinning) {
  GpuChoice choice = all;
  const std::size_t each = gpus_for_each(pinning);
  if (choice.list.empty()) {
    MUSTER_RETURN_IF_ERROR(check_none(choice, pinning));
    return choice;
  }
  if (pinning.gpu_order != GpuOrder::kList) {
    const auto is_part = [](const VisibleGpu& device) { return is_mig_name(device.name); };
    const std::size_t whole =
        choice.list.size() - static_cast<std::size_t>(std::ranges::count_if(choice.list, is_part));
    if (whole >= ranks * each || (each > 1 && whole >= each)) std::erase_if(choice.list, is_part);
  }
  if (has_parts(choice.list) && each > 1) {
    return base::invalid_argument(
        "--gpus-per-rank {}: a GPU there is divided (MIG), and CUDA shows a process one part of it", each);
  }
  MUSTER_RETURN_IF_ERROR(check_enough(ranks, choice.list.size(), each, pinning));
  return choice;
}

std::size_t gpus_for_each(const Pinning& pinning) {
  return static_cast<std::size_t>(std::max(pinning.gpus_per_rank, 1));
}

bool has_parts(const std::vector<VisibleGpu>& devices) {
  return std::ranges::any_of(devices, [](const VisibleGpu& device) { return is_mig_name(device.name); });
}

}  // namespace muster::model
