// Binds the ranks of one host: chosen cores and GPUs first, then the roles' masks, then the binder for the rest.
// Read bind_host() and bind_places() at the end first, then choose(), deal_rest() and gpus_of_role().
#include "model/host_binding.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/strings.h"
#include "model/cpu_binding.h"
#include "model/device_id.h"
#include "model/gpu_choice.h"
#include "model/gpu_mask.h"
#include "model/intel_gpus.h"
#include "model/rank_env.h"

namespace muster::model {
namespace {

using base::Result;

struct Device {
  GpuVendor vendor = GpuVendor::kNvidia;
  VisibleGpu seen;
};

// Lists all devices of the host, even those that the login's masks hide, because a user who chooses GPUs uses their
// numbers and names on the whole host.
std::vector<Device> all_devices(const NodeShape& node, const GpuMasks& masks) {
  std::vector<Device> devices;
  for (const GpuVendor vendor : {GpuVendor::kNvidia, GpuVendor::kAmd}) {
    for (VisibleGpu& each : visible_gpus(node, vendor, std::nullopt)) devices.push_back({vendor, std::move(each)});
  }
  const GpuMasks hierarchy{.ze_hierarchy = masks.ze_hierarchy ? masks.ze_hierarchy : node.gpu_masks.ze_hierarchy};
  auto of_intel = intel_devices(node, GpuBind::kOne, hierarchy);
  if (of_intel.ok()) {
    for (VisibleGpu& each : *of_intel) devices.push_back({GpuVendor::kIntel, std::move(each)});
  }
  return devices;
}

bool is_named(const Device& device, const std::string& name) {
  if (is_mig_name(device.seen.name)) return device.seen.name == name;
  return device.seen.gpu->uuid == name || (!device.seen.gpu->pci.empty() && device.seen.gpu->pci == name);
}

// Returns true if a GPU or part of this name may exist, because the driver's library did not report all names.
bool may_be_there(const NodeShape& node, const std::string& name) {
  const bool is_part = is_mig_name(name);
  if (!is_part && !name.starts_with("GPU-")) return false;
  return std::ranges::any_of(node.gpus, [&](const GpuShape& gpu) {
    return gpu.vendor == GpuVendor::kNvidia && (is_part ? gpu.memory_mib == 0 && gpu.parts.empty() : gpu.uuid.empty());
  });
}

std::string names_of(const std::vector<Device>& devices) {
  std::vector<std::string> names;
  for (const Device& device : devices) {
    const bool is_part = is_mig_name(device.seen.name);
    names.push_back(is_part || device.seen.gpu->uuid.empty() ? device.seen.name : device.seen.gpu->uuid);
    if (!is_part && device.seen.gpu->uuid.empty() && !device.seen.gpu->pci.empty()) {
      names.back() = device.seen.gpu->pci;
    }
  }
  return names.empty() ? "none" : base::join(names, ", ");
}

// Returns the device with this name. nullptr if none is found but it may exist.
Result<const Device*> find_device(const NodeShape& node, const std::vector<Device>& devices, const RankPlace& place,
                                  const std::string& name) {
  const auto count = std::ranges::count_if(devices, [&](const Device& device) { return is_named(device, name); });
  if (count > 1) {
    return base::invalid_argument(
        "rank {} is placed on GPU {}, but {} parts of a GPU have that name there and cannot be distinguished: "
        "name no GPU for this rank, and it gets one",
        place.rank, base::printable(name), count);
  }
  const auto found = std::ranges::find_if(devices, [&](const Device& device) { return is_named(device, name); });
  if (found != devices.end()) return &*found;
  if (may_be_there(node, name)) return nullptr;
  return base::invalid_argument("rank {} is placed on GPU {}, which the host does not have: it has {}", place.rank,
                                base::printable(name), names_of(devices));
}

Result<RankGpus> chosen_gpus(const NodeShape& node, const RankPlace& place, const std::vector<Device>& devices,
                             GpuMasks masks) {
  masks.ze.reset();  // ZE_AFFINITY_MASK and its order do not apply to chosen GPUs
  RankGpus own;
  std::vector<std::string> names;
  std::optional<GpuVendor> vendor;
  bool by_index = false;
  for (const std::string& name : place.gpus) {
    MUSTER_ASSIGN_OR_RETURN(const Device* const found, find_device(node, devices, place, name));
    const GpuVendor its = found == nullptr ? GpuVendor::kNvidia : found->vendor;
    if (vendor && *vendor != its) {
      return base::invalid_argument("rank {} is placed on GPUs of two vendors, but can use those of one only",
                                    place.rank);
    }
    vendor = its;
    if (found == nullptr) {
      names.push_back(name);
      own.devices.push_back(name);
      continue;
    }
    names.push_back(found->seen.name);
    own.devices.push_back(device_id(its, found->seen));
    own.indices.push_back(found->seen.gpu->index);
    by_index = by_index || (!is_mig_name(found->seen.name) && found->seen.name != found->seen.gpu->uuid);
  }
  if (!own.indices.empty()) own.index = own.indices.front();
  if (vendor) own.variables = mask_variables(*vendor, base::join(names, ","), names.size(), by_index, masks);
  return own;
}

RankBinding chosen_cores(const NodeShape& node, const std::vector<int>& cpus) {
  RankBinding binding{.cpus = cpus};
  binding.physical_cores =
      static_cast<int>(std::ranges::count_if(node.cores, [&](const CoreShape& core) { return touches(core, cpus); }));
  return binding;
}

// The bindings chosen so far, and the ranks that still need cores or GPUs.
struct Chosen {
  NodeBinding binding;
  std::vector<int> cpus;  // sorted
  std::vector<std::string> devices;
  std::vector<std::size_t> without_cores;  // local ranks
  std::vector<std::size_t> without_gpus;   // only ranks to which GPUs are dealt
};

Result<Chosen> choose(const NodeShape& node, std::span<const RankRequest> requests, const GpuMasks& masks) {
  Chosen chosen;
  chosen.binding.cores.resize(requests.size());
  chosen.binding.gpus.resize(requests.size());
  const bool is_any_gpu = std::ranges::any_of(requests, &RankRequest::has_gpus);
  const std::vector<Device> devices = is_any_gpu ? all_devices(node, masks) : std::vector<Device>();
  for (std::size_t rank = 0; rank < requests.size(); ++rank) {
    const RankPlace* const place = requests[rank].place;
    if (requests[rank].has_cpus()) {
      chosen.binding.cores[rank] = chosen_cores(node, place->cpus);
      chosen.cpus.insert(chosen.cpus.end(), place->cpus.begin(), place->cpus.end());
    } else {
      chosen.without_cores.push_back(rank);
    }
    if (!requests[rank].has_gpus()) continue;
    MUSTER_ASSIGN_OR_RETURN(chosen.binding.gpus[rank], chosen_gpus(node, *place, devices, masks_in_force(node, masks)));
    const auto& own = chosen.binding.gpus[rank].devices;
    chosen.devices.insert(chosen.devices.end(), own.begin(), own.end());
  }
  std::ranges::sort(chosen.cpus);
  return chosen;
}

// Returns the pinning with only the CPU lists of these local ranks.
Pinning pinning_of(const Pinning& pinning, const std::vector<std::size_t>& ranks) {
  Pinning own = pinning;
  if (pinning.bind_to != BindTo::kList) return own;
  own.cpu_lists.clear();
  for (const std::size_t rank : ranks) {
    if (rank < pinning.cpu_lists.size()) own.cpu_lists.push_back(pinning.cpu_lists[rank]);
  }
  return own;
}

bool is_any_of(const NodeShape& node, const std::string& id, const std::vector<std::string>& devices) {
  return std::ranges::any_of(devices, [&](const std::string& other) { return may_be_same_device(node, id, other); });
}

void add_dealt_gpus(NodeBinding dealt, Chosen& chosen) {
  for (std::size_t i = 0; i < chosen.without_gpus.size(); ++i) {
    chosen.binding.gpus[chosen.without_gpus[i]] = std::move(dealt.gpus[i]);
  }
  chosen.binding.visible_gpus = dealt.visible_gpus;
  chosen.binding.dealt = std::move(dealt.dealt);
  chosen.binding.remark = std::move(dealt.remark);
}

// Deals cores and GPUs to the ranks that have none yet. If the same ranks need both, they are dealt together. `whole`
// is the host's shape; `node` is the same shape, but only with the cores that the job may use.
base::Status deal_rest(const NodeShape& whole, const NodeShape& node, const Pinning& pinning, const GpuMasks& masks,
                       const std::set<std::string>* allowed, Chosen& chosen) {
  NodeShape rest = node;
  if (pinning.bind_to != BindTo::kList) {
    std::erase_if(rest.cores, [&](const CoreShape& core) { return touches(core, chosen.cpus); });
    if (rest.cores.empty()) rest.cores = node.cores;  // all cores were chosen, so the other ranks share them
  }
  const bool is_together = chosen.without_cores == chosen.without_gpus;
  if (!chosen.without_cores.empty()) {
    Pinning own = pinning_of(pinning, chosen.without_cores);
    if (!is_together) own.gpu_bind = GpuBind::kNone;
    MUSTER_ASSIGN_OR_RETURN(NodeBinding dealt,
                            bind_node(rest, static_cast<int>(chosen.without_cores.size()), own, masks, allowed));
    for (std::size_t i = 0; i < chosen.without_cores.size(); ++i) {
      chosen.binding.cores[chosen.without_cores[i]] = std::move(dealt.cores[i]);
    }
    if (is_together) add_dealt_gpus(std::move(dealt), chosen);
  }
  if (is_together || chosen.without_gpus.empty()) return base::ok_status();
  std::vector<RankBinding> cores;
  for (const std::size_t rank : chosen.without_gpus) cores.push_back(chosen.binding.cores[rank]);
  MUSTER_ASSIGN_OR_RETURN(NodeBinding dealt,
                          bind_node(whole, static_cast<int>(cores.size()), pinning, masks, allowed, &cores));
  add_dealt_gpus(std::move(dealt), chosen);
  return base::ok_status();
}

// Refuse ranks without a permitted GPU. They would get no mask and so see every GPU. `allowed` is what is left for
// ranks to which GPUs are dealt.
base::Status check_left(const NodeShape& node, const Pinning& pinning, const GpuMasks& masks,
                        const std::vector<std::string>& chosen, const std::set<std::string>& allowed) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> all, devices_of_job(node, pinning, masks));
  const auto is_left = [&](const std::string& id) { return allowed.contains(id); };
  if (all.empty() || std::ranges::any_of(all, is_left)) return base::ok_status();
  if (std::ranges::all_of(all, [&](const std::string& id) { return is_any_of(node, id, chosen); })) {
    return base::invalid_argument(
        "some of its ranks are placed on all {} GPUs, so no GPU is left for the other ranks: place these too, "
        "or use --gpu-bind none if they need none",
        all.size());
  }
  return base::failed_precondition(
      "the job has none of the {} GPUs there: other jobs have them, or the GPUs changed after the job was "
      "placed (--gpu-bind none if its ranks need none)",
      all.size());
}

}  // namespace

std::vector<RoleMasks> role_masks(const std::vector<Role>& roles, const base::Environment& launcher) {
  std::vector<RoleMasks> masks;
  int first = 0;
  for (const Role& role : roles) {
    RoleMasks own{.first = first, .count = role.np};
    first += role.np;
    set_gpu_masks(exported_variables(launcher, {.named = role.environment, .only_named = true}, false), own.masks);
    if (own.masks != GpuMasks()) masks.push_back(std::move(own));
  }
  return masks;
}

std::vector<RankRequest> requests_on(std::span<const RankPlace> places, std::span<const RoleMasks> roles,
                                     const PlacedHost& host) {
  std::vector<RankRequest> requests;
  for (const PlacedRank& rank : host.ranks) {
    RankRequest& request = requests.emplace_back();
    const auto number = static_cast<std::size_t>(rank.rank);
    if (number < places.size()) request.place = &places[number];
    for (const RoleMasks& role : roles) {
      if (rank.rank >= role.first && rank.rank < role.first + role.count) request.masks = &role.masks;
    }
  }
  return requests;
}

namespace {

// Returns the GPUs that a rank sees by its role's masks alone. nullopt if the role sets no such mask. AMD's HIP masks
// select among the GPUs that are dealt to the rank. So they matter here only if they leave no GPU.
std::optional<RankGpus> gpus_of_role(const NodeShape& whole_node, const Pinning& pinning, const GpuMasks& job_masks,
                                     const GpuMasks& role) {
  const NodeShape node = with_described_gpus(whole_node, pinning);
  GpuMasks masks = masks_in_force(node, job_masks);
  set_gpu_masks(gpu_mask_variables(role), masks);
  const auto choice = choose_gpus(node, {.gpu_bind = pinning.gpu_bind}, masks);
  if (!choice.ok()) return std::nullopt;
  const bool is_none = choice->list.empty() && (role.hip || role.cuda);
  const bool has_masks = choice->vendor == GpuVendor::kNvidia ? role.cuda.has_value()
                         : choice->vendor == GpuVendor::kAmd  ? role.rocr.has_value() || is_none
                                                              : role.ze.has_value();
  if (!has_masks) return std::nullopt;
  RankGpus own;
  for (const VisibleGpu& device : choice->list) {
    own.devices.push_back(device_id(choice->vendor, device));
    if (device.gpu != nullptr) own.indices.push_back(device.gpu->index);
  }
  if (!own.indices.empty()) own.index = own.indices.front();
  return own;
}

// The GPUs that the masks of each role select, for roles with ranks on this host.
using RoleGpus = std::map<const GpuMasks*, std::optional<RankGpus>>;

RoleGpus gpus_of_roles(const NodeShape& node, std::span<const RankRequest> requests, const Pinning& pinning,
                       const GpuMasks& masks) {
  RoleGpus roles;
  if (pinning.gpu_bind == GpuBind::kNone) return roles;
  for (const RankRequest& request : requests) {
    if (request.masks == nullptr || roles.contains(request.masks)) continue;
    roles.emplace(request.masks, gpus_of_role(node, pinning, masks, *request.masks));
  }
  return roles;
}

// Returns the GPUs that the rank has by its role's masks. nullptr if the role sets none, or if the user chose the
// rank's GPUs.
const RankGpus* gpus_by_masks(const RoleGpus& roles, const RankRequest& request) {
  const auto found = roles.find(request.masks);
  return found == roles.end() || !found->second || request.has_gpus() ? nullptr : &*found->second;
}

std::vector<bool> are_dealt(std::span<const RankRequest> requests, const RoleGpus& roles, GpuBind gpu_bind) {
  std::vector<bool> dealt(requests.size(), false);
  bool is_any_later = false;
  for (std::size_t rank = requests.size(); rank-- > 0;) {
    if (requests[rank].has_gpus()) continue;
    // With kOrder all ranks see one list, and each uses the GPU at index local_rank. So if a later rank is dealt a GPU,
    // every rank before it must be dealt one, too.
    const bool is_counted = gpu_bind == GpuBind::kOrder && is_any_later;
    dealt[rank] = is_counted || gpus_by_masks(roles, requests[rank]) == nullptr;
    is_any_later = is_any_later || dealt[rank];
  }
  return dealt;
}

// Reserves GPUs that roles name for these roles, if the others are enough for `ranks` ranks.
void leave_to_roles(const NodeShape& node, const std::vector<std::string>& named, std::size_t ranks,
                    const Pinning& pinning, std::set<std::string>& allowed) {
  std::set<std::string> others = allowed;
  std::erase_if(others, [&](const std::string& id) { return is_any_of(node, id, named); });
  if (others.size() >= ranks * gpus_for_each(pinning)) allowed = std::move(others);
}

// Returns the node, reduced to the cores that the ranks may get.
NodeShape node_of_share(const NodeShape& node, const HostShare* share, const Pinning& pinning) {
  if (share == nullptr || share->cpus.empty() || pinning.bind_to == BindTo::kList) return node;
  NodeShape own = node;
  std::erase_if(own.cores, [&](const CoreShape& core) { return !touches(core, share->cpus); });
  return own.cores.empty() ? node : own;  // the host has changed since the share was made
}

// Binds all ranks, except for the GPUs that ranks have by their roles' masks.
Result<NodeBinding> bind_places(const NodeShape& whole_node, std::span<const RankRequest> requests,
                                const RoleGpus& roles, const Pinning& job_pinning, const GpuMasks& masks,
                                const HostShare* share) {
  Pinning pinning = job_pinning;
  const bool is_crowded = share != nullptr && share->is_crowded && pinning.bind_to == BindTo::kShare;
  if (is_crowded) pinning.bind_to = BindTo::kNone;
  const NodeShape node = node_of_share(whole_node, share, pinning);
  MUSTER_ASSIGN_OR_RETURN(Chosen chosen, choose(whole_node, requests, masks));
  const std::vector<bool> dealt = are_dealt(requests, roles, pinning.gpu_bind);
  std::vector<std::string> named;
  for (std::size_t rank = 0; rank < requests.size(); ++rank) {
    if (dealt[rank]) chosen.without_gpus.push_back(rank);
    const RankGpus* const by_masks = gpus_by_masks(roles, requests[rank]);
    if (by_masks != nullptr) named.insert(named.end(), by_masks->devices.begin(), by_masks->devices.end());
  }
  const bool is_any_dealt = !chosen.without_gpus.empty();
  const bool is_limited = share != nullptr || !chosen.devices.empty() || !named.empty();
  std::set<std::string> allowed;
  if (share != nullptr) {
    allowed.insert(share->devices.begin(), share->devices.end());
  } else if (is_limited && is_any_dealt) {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> all, devices_of_job(node, pinning, masks));
    allowed.insert(all.begin(), all.end());
  }
  std::erase_if(allowed, [&](const std::string& id) { return is_any_of(node, id, chosen.devices); });
  leave_to_roles(node, named, chosen.without_gpus.size(), pinning, allowed);
  MUSTER_RETURN_IF_ERROR(deal_rest(whole_node, node, pinning, masks, is_limited ? &allowed : nullptr, chosen));
  if (is_limited && is_any_dealt) {
    MUSTER_RETURN_IF_ERROR(check_left(node, pinning, masks, chosen.devices, allowed));
  }
  chosen.binding.dealt_ranks = static_cast<int>(chosen.without_gpus.size());
  if (is_crowded) {
    for (const std::size_t rank : chosen.without_cores) chosen.binding.cores[rank].physical_cores = 1;
  }
  return std::move(chosen.binding);
}

}  // namespace

std::vector<bool> are_dealt(const NodeShape& node, std::span<const RankRequest> requests, const Pinning& pinning,
                            const GpuMasks& masks) {
  return are_dealt(requests, gpus_of_roles(node, requests, pinning, masks), pinning.gpu_bind);
}

Result<std::vector<std::string>> chosen_devices(const NodeShape& node, std::span<const RankRequest> requests,
                                                const GpuMasks& masks) {
  if (std::ranges::none_of(requests, &RankRequest::has_gpus)) return std::vector<std::string>();
  MUSTER_ASSIGN_OR_RETURN(Chosen chosen, choose(node, requests, masks));
  return std::move(chosen.devices);
}

Result<NodeBinding> bind_host(const NodeShape& node, std::span<const RankRequest> requests, const Pinning& pinning,
                              const GpuMasks& masks, const HostShare* share) {
  const RoleGpus roles = gpus_of_roles(node, requests, pinning, masks);
  MUSTER_ASSIGN_OR_RETURN(NodeBinding binding, bind_places(node, requests, roles, pinning, masks, share));
  for (std::size_t rank = 0; rank < requests.size(); ++rank) {
    if (const RankGpus* const own = gpus_by_masks(roles, requests[rank])) binding.gpus[rank] = *own;
  }
  return binding;
}

}  // namespace muster::model
