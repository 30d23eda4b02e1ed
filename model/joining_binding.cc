// Binds all ranks first. Only if a rank that joins then has a core or a GPU of a rank that runs, it deals what is left.
// Read bind_joining() at the end first, then cores_left(), devices_left() and list_in_order().
#include "model/joining_binding.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "model/device_id.h"
#include "model/gpu_choice.h"
#include "model/intel_gpus.h"

namespace muster::model {
namespace {

using base::Result;

struct Held {
  std::vector<int> cpus;  // sorted
  std::vector<std::string> devices;
};

Held held_by(std::span<const BoundRank> running) {
  Held held;
  for (const BoundRank& rank : running) {
    held.cpus.insert(held.cpus.end(), rank.cpus.begin(), rank.cpus.end());
    held.devices.insert(held.devices.end(), rank.devices.begin(), rank.devices.end());
  }
  std::ranges::sort(held.cpus);
  return held;
}

bool is_held(const NodeShape& node, const Held& held, const std::string& id) {
  return std::ranges::any_of(held.devices,
                             [&](const std::string& other) { return may_be_same_device(node, id, other); });
}

// Returns the local ranks that join, sorted.
std::vector<std::size_t> joining_ranks(std::size_t ranks, std::span<const BoundRank> running) {
  std::vector<std::size_t> joining;
  for (std::size_t local = 0; local < ranks; ++local) {
    const auto is_this = [local](const BoundRank& rank) { return std::cmp_equal(rank.local_rank, local); };
    if (std::ranges::none_of(running, is_this)) joining.push_back(local);
  }
  return joining;
}

void keep_running(std::span<const BoundRank> running, NodeBinding& binding) {
  for (const BoundRank& rank : running) {
    if (rank.local_rank < 0 || std::cmp_greater_equal(rank.local_rank, binding.cores.size())) continue;
    const auto local = static_cast<std::size_t>(rank.local_rank);
    binding.cores[local].cpus = rank.cpus;
    RankGpus& gpus = binding.gpus[local];
    gpus.devices = rank.devices;
    gpus.indices = rank.gpus;
    gpus.index = rank.gpus.empty() ? std::nullopt : std::optional(rank.gpus.front());
  }
}

// Whether a rank that joins has a core or a GPU of a rank that runs.
bool has_conflict(const NodeShape& node, const NodeBinding& binding, const std::vector<std::size_t>& joining,
                  const Held& held) {
  return std::ranges::any_of(joining, [&](std::size_t local) {
    const bool has_core = std::ranges::any_of(binding.cores[local].cpus,
                                              [&](int cpu) { return std::ranges::binary_search(held.cpus, cpu); });
    return has_core || std::ranges::any_of(binding.gpus[local].devices,
                                           [&](const std::string& id) { return is_held(node, held, id); });
  });
}

// Returns the CPUs of the job's cores that no rank has. nullopt if they are not enough, or if cores are not dealt.
std::optional<std::vector<int>> cores_left(const NodeShape& node, const Pinning& pinning, const HostShare* share,
                                           const Held& held, std::size_t ranks) {
  const bool is_dealt = pinning.bind_to != BindTo::kList && pinning.bind_to != BindTo::kNone;
  if (!is_dealt || (share != nullptr && share->is_crowded)) return std::nullopt;
  std::vector<int> cpus;
  std::size_t cores = 0;
  for (const CoreShape& core : node.cores) {
    const bool is_in_share = share == nullptr || share->cpus.empty() || touches(core, share->cpus);
    if (!is_in_share || touches(core, held.cpus)) continue;
    cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
    ++cores;
  }
  if (cores < ranks) return std::nullopt;
  std::ranges::sort(cpus);
  return cpus;
}

// Returns the job's devices, without those that ranks have. nullopt if they are not enough, or if none are dealt.
std::optional<std::vector<std::string>> devices_left(const NodeShape& node, const Pinning& pinning,
                                                     std::vector<std::string> devices, const Held& held,
                                                     std::size_t ranks) {
  std::erase_if(devices, [&](const std::string& id) { return is_held(node, held, id); });
  if (devices.empty() || devices.size() < ranks * gpus_for_each(pinning)) return std::nullopt;
  return devices;
}

// Returns the devices of all local ranks in the order of common lists: the first device of each rank, then the second
// one of each, and so on. Empty if a rank has fewer than `each`.
std::vector<std::string> in_order(const NodeBinding& binding, std::size_t each) {
  std::vector<std::string> ids;
  for (std::size_t nth = 0; nth < each; ++nth) {
    for (const RankGpus& gpus : binding.gpus) {
      if (gpus.devices.size() <= nth) return {};
      ids.push_back(gpus.devices[nth]);
    }
  }
  return ids;
}

// Gives the ranks that join one list for --gpu-bind order. Returns false if the list cannot be made.
bool list_in_order(const NodeShape& whole_node, const Pinning& pinning, const GpuMasks& job_masks,
                   const std::vector<std::size_t>& joining, NodeBinding& binding) {
  const NodeShape node = with_described_gpus(whole_node, pinning);
  const GpuMasks masks = masks_in_force(node, job_masks);
  const auto choice = choose_gpus(node, pinning, masks);
  if (!choice.ok()) return false;
  if (has_parts(choice->list)) return true;  // each rank sees only its own device
  std::vector<std::string> names;
  bool by_index = false;
  for (const std::string& id : in_order(binding, gpus_for_each(pinning))) {
    const auto found = std::ranges::find_if(
        choice->list, [&](const VisibleGpu& device) { return device_id(choice->vendor, device) == id; });
    if (found == choice->list.end()) return false;
    names.push_back(found->name);
    by_index = by_index || (found->gpu != nullptr && found->name == std::to_string(found->gpu->index));
  }
  if (names.empty()) return false;
  const auto variables = mask_variables(choice->vendor, base::join(names, ","), names.size(), by_index, masks);
  for (const std::size_t local : joining) binding.gpus[local].variables = variables;
  return true;
}

}  // namespace

Result<NodeBinding> bind_joining(const NodeShape& node, std::span<const RankRequest> requests,
                                 std::span<const BoundRank> running, const Pinning& pinning, const GpuMasks& masks,
                                 const HostShare* share) {
  MUSTER_ASSIGN_OR_RETURN(NodeBinding all, bind_host(node, requests, pinning, masks, share));
  keep_running(running, all);
  const Held held = held_by(running);
  const std::vector<std::size_t> joining = joining_ranks(requests.size(), running);
  if (!has_conflict(node, all, joining, held)) return all;

  HostShare rest = share == nullptr ? HostShare() : *share;
  if (share == nullptr) {
    MUSTER_ASSIGN_OR_RETURN(rest.devices, devices_of_job(node, pinning, masks));
  }
  const auto cores = cores_left(node, pinning, share, held, joining.size());
  const auto devices = devices_left(node, pinning, rest.devices, held, joining.size());
  if (cores) rest.cpus = *cores;
  if (devices) rest.devices = *devices;
  std::vector<RankRequest> own_requests;
  for (const std::size_t local : joining) own_requests.push_back(requests[local]);
  Pinning own_pinning = pinning;
  if (pinning.bind_to == BindTo::kList) own_pinning.bind_to = BindTo::kNone;  // the lists are by local rank
  auto own = bind_host(node, own_requests, own_pinning, masks, &rest);
  if (!own.ok()) return all;
  for (std::size_t i = 0; cores && i < joining.size(); ++i) all.cores[joining[i]] = own->cores[i];
  if (!devices) return all;
  NodeBinding dealt = all;
  for (std::size_t i = 0; i < joining.size(); ++i) dealt.gpus[joining[i]] = own->gpus[i];
  const bool is_listed = pinning.gpu_bind == GpuBind::kOrder;
  return is_listed && !list_in_order(node, pinning, masks, joining, dealt) ? all : dealt;
}

}  // namespace muster::model
