// The whole of HostUse, and the decision which cores and GPUs of a host a job gets.
// Read it in this order: share_of at the end, choose_cores, choose_devices, named_devices, settle_cores.
#include "launcherd/queue/host_share.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include <fmt/format.h>

#include "model/cpu_binding.h"
#include "model/device_id.h"
#include "model/gpu_choice.h"
#include "model/gpu_mask.h"
#include "model/host_binding.h"

namespace muster::launcherd::inline queue {
namespace {

using base::Result;
using model::BindTo;
using model::CoreShape;
using model::NodeShape;
using model::touches;
using model::whole_cores;
using RankRequests = std::span<const model::RankRequest>;

// Counts the users of all devices that may be this device or a part of it.
HostUse::Users users_of(const HostUse& use, const NodeShape& node, const std::string& id) {
  HostUse::Users all;
  for (const auto& [other, users] : use.devices()) {
    if (!model::may_be_same_device(node, id, other)) continue;
    all.count += users.count;
    all.are_open = all.are_open && users.are_open;
  }
  return all;
}

std::vector<std::string> free_of(const std::vector<std::string>& all, const HostUse& use, const NodeShape& node) {
  std::vector<std::string> free;
  std::ranges::copy_if(all, std::back_inserter(free),
                       [&](const std::string& id) { return users_of(use, node, id).count == 0; });
  return free;
}

// Returns devices that are free or that other jobs share, the least used first.
std::vector<std::string> open_of(const std::vector<std::string>& all, const HostUse& use, const NodeShape& node) {
  std::vector<std::string> open;
  std::ranges::copy_if(all, std::back_inserter(open),
                       [&](const std::string& id) { return users_of(use, node, id).are_open; });
  std::ranges::stable_sort(open, {}, [&](const std::string& id) { return users_of(use, node, id).count; });
  return open;
}

std::vector<int> all_cpus(const std::vector<CoreShape>& cores) {
  std::vector<int> cpus;
  for (const CoreShape& core : cores) cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
  std::ranges::sort(cpus);
  return cpus;
}

// Returns the cores that no other job uses. If none are left, returns all cores, except with --bind-to depth.
std::vector<CoreShape> free_cores(const NodeShape& node, const HostUse& use, BindTo bind_to) {
  std::vector<CoreShape> cores;
  std::ranges::copy_if(node.cores, std::back_inserter(cores),
                       [&](const CoreShape& core) { return !touches(core, use.cpus()); });
  return cores.empty() && bind_to != BindTo::kDepth ? node.cores : cores;
}

// Divides the CPUs into equal shares, one per slot. Returns the CPUs of the least used shares, one share per rank.
std::vector<int> cpus_of_slots(const NodeShape& node, const HostUse& use, int slots, std::size_t ranks,
                               const model::Pinning& pinning) {
  const std::vector<model::RankBinding> shares =
      model::bind_ranks(model::usable_node(node, pinning), slots, BindTo::kShare);
  std::vector<std::pair<long, std::size_t>> order;  // CPUs in use, slot
  for (std::size_t slot = 0; slot < shares.size(); ++slot) {
    order.emplace_back(
        std::ranges::count_if(shares[slot].cpus, [&](int cpu) { return std::ranges::binary_search(use.cpus(), cpu); }),
        slot);
  }
  std::ranges::sort(order);
  std::vector<int> cpus;
  for (std::size_t i = 0; i < std::min(ranks, order.size()); ++i) {
    const std::vector<int>& share = shares[order[i].second].cpus;
    cpus.insert(cpus.end(), share.begin(), share.end());
  }
  std::ranges::sort(cpus);
  return cpus;
}

// Sets the cores for the ranks whose cores the user did not choose.
base::Status choose_cores(const ShareRequest& request, const NodeShape& node, const HostUse& use, int slots,
                          RankRequests rank_requests, model::HostShare& share) {
  const BindTo bind_to = request.pinning.bind_to;
  const auto ranks = static_cast<std::size_t>(std::ranges::count(rank_requests, false, &model::RankRequest::has_cpus));
  if (bind_to == BindTo::kNone || bind_to == BindTo::kList || ranks == 0) return base::ok_status();
  const std::vector<CoreShape> free = free_cores(node, use, bind_to);
  // A host that reports no cores gives a share without cores, which is no error.
  if (free.empty() && !node.cores.empty()) return base::invalid_argument("no core is free there");
  if (bind_to == BindTo::kDepth || std::cmp_greater_equal(ranks, slots)) {
    share.cpus = all_cpus(free);
    return base::ok_status();
  }
  if (std::cmp_less(model::usable_node(node, request.pinning).cores.size(), slots)) {
    share.is_crowded = true;
    return base::ok_status();
  }
  const std::vector<int> of_slots = cpus_of_slots(node, use, slots, ranks, request.pinning);
  std::vector<CoreShape> cores;
  std::ranges::copy_if(free, std::back_inserter(cores), [&](const CoreShape& core) { return touches(core, of_slots); });
  share.cpus = cores.empty() ? whole_cores(node, of_slots) : all_cpus(cores);
  return base::ok_status();
}

// Sets the share's final cores, once the cores of each rank are known.
void settle_cores(const NodeShape& node, const model::NodeBinding& binding, BindTo bind_to, RankRequests rank_requests,
                  model::HostShare& share) {
  std::vector<int> bound;
  for (std::size_t rank = 0; rank < rank_requests.size(); ++rank) {
    if (!rank_requests[rank].has_cpus() && bind_to != BindTo::kDepth && bind_to != BindTo::kList) continue;
    const std::vector<int>& cpus = binding.cores[rank].cpus;
    bound.insert(bound.end(), cpus.begin(), cpus.end());
  }
  if (bind_to != BindTo::kDepth) bound.insert(bound.end(), share.cpus.begin(), share.cpus.end());
  std::ranges::sort(bound);
  share.cpus = whole_cores(node, bound);
}

// Returns the GPUs that the user named, each once. INVALID_ARGUMENT: another job uses one of them and does not share
// it.
Result<std::vector<std::string>> named_devices(const ShareRequest& request, const NodeShape& node, const HostUse& use,
                                               const model::NodeBinding& binding, RankRequests rank_requests,
                                               bool is_open) {
  std::vector<std::string> devices;
  for (std::size_t rank = 0; rank < rank_requests.size(); ++rank) {
    const bool is_by_role = !rank_requests[rank].has_gpus();
    if (is_by_role && rank_requests[rank].masks == nullptr) continue;
    for (const std::string& id : binding.gpus[rank].devices) {
      const HostUse::Users users = users_of(use, node, id);
      const bool may_share = is_by_role ? is_open : request.pinning.share_gpu;
      if (users.count > 0 && !(users.are_open && may_share)) {
        return base::invalid_argument("{} {}, which another job uses",
                                      is_by_role ? "one of its roles names" : "its ranks are placed on", id);
      }
      if (std::ranges::find(devices, id) == devices.end()) devices.push_back(id);
    }
  }
  return devices;
}

std::vector<std::string> not_chosen(const std::vector<std::string>& all, const NodeShape& node,
                                    const std::vector<std::string>& chosen) {
  std::vector<std::string> left;
  std::ranges::copy_if(all, std::back_inserter(left), [&](const std::string& id) {
    return std::ranges::none_of(chosen,
                                [&](const std::string& other) { return model::may_be_same_device(node, id, other); });
  });
  return left;
}

// Sets the devices for the ranks: at least `least` of `all`.
base::Status choose_devices(const NodeShape& node, const HostUse& use, const std::vector<std::string>& all,
                            std::size_t least, model::HostShare& share) {
  share.devices = free_of(all, use, node);
  if (share.devices.size() >= least) return base::ok_status();
  if (share.is_open) {
    share.devices = open_of(all, use, node);
    share.devices.resize(std::min(share.devices.size(), least));
    if (!share.devices.empty()) return base::ok_status();
  }
  return base::invalid_argument("{} of {} GPUs are free there", share.devices.size(), all.size());
}

}  // namespace

const HostUse::Content& HostUse::content() const {
  static const Content kNothing;
  return content_ != nullptr ? *content_ : kNothing;
}

void HostUse::Content::count(const model::HostShare& share) {
  std::vector<int> all;
  std::ranges::set_union(cpus, share.cpus, std::back_inserter(all));
  cpus = std::move(all);
  for (const std::string& id : share.devices) {
    Users& users = devices[id];
    ++users.count;
    users.are_open = users.are_open && share.is_open;
  }
}

void HostUse::add(const model::HostShare& share) {
  auto changed = std::make_shared<Content>(content());
  changed->shares.push_back(share);
  changed->count(share);
  content_ = std::move(changed);
}

void HostUse::remove(const model::HostShare& share) {
  const auto found = std::ranges::find(shares(), share);
  if (found == shares().end()) return;
  auto changed = std::make_shared<Content>();
  changed->shares = shares();
  changed->shares.erase(changed->shares.begin() + (found - shares().begin()));
  for (const model::HostShare& each : changed->shares) changed->count(each);
  content_ = std::move(changed);
}

bool is_open_share(const ShareRequest& request, std::size_t devices, int slots) {
  return request.pinning.share_gpu || (!request.asks_for_gpus() && std::cmp_less(devices, slots));
}

std::optional<std::vector<std::string>> devices_for(const ShareRequest& request, const NodeShape& node) {
  auto all = model::devices_of_job(node, request.pinning, request.masks);
  if (!all.ok()) return std::nullopt;
  return *std::move(all);
}

int free_devices(const std::vector<std::string>& all, const NodeShape& node, const HostUse& use) {
  return static_cast<int>(free_of(all, use, node).size());
}

DeviceCounts count_devices(const std::vector<std::string>& all, const NodeShape& node, const HostUse& use) {
  DeviceCounts counts{.all = all.size()};
  for (const std::string& id : all) {
    const HostUse::Users users = users_of(use, node, id);
    if (users.count == 0) ++counts.free;
    if (users.are_open) ++counts.open;
  }
  return counts;
}

int ranks_for_gpus(const ShareRequest& request, const DeviceCounts& devices, int slots) {
  if (devices.all == 0) return request.pinning.gpus_per_rank > 0 ? 0 : kAnyRanks;
  const std::size_t each = model::gpus_for_each(request.pinning);
  if (is_open_share(request, devices.all, slots)) return devices.open >= each ? kAnyRanks : 0;
  if (!request.asks_for_gpus() && devices.free == devices.all) return kAnyRanks;
  return static_cast<int>(devices.free / each);
}

int ranks_for_gpus(const ShareRequest& request, const std::vector<std::string>& all, const NodeShape& node,
                   const HostUse& use, int slots) {
  return ranks_for_gpus(request, count_devices(all, node, use), slots);
}

Result<model::HostShare> share_of(const ShareRequest& request, const NodeShape& node, const HostUse& use, int slots,
                                  RankRequests rank_requests) {
  model::HostShare share;
  MUSTER_RETURN_IF_ERROR(choose_cores(request, node, use, slots, rank_requests, share));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                          model::devices_of_job(node, request.pinning, request.masks));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> chosen,
                          model::chosen_devices(node, rank_requests, request.masks));
  const std::vector<std::string> rest = not_chosen(all, node, chosen);
  const std::vector<bool> dealt = model::are_dealt(node, rank_requests, request.pinning, request.masks);
  const auto dealt_ranks = static_cast<std::size_t>(std::ranges::count(dealt, true));
  const std::size_t least = std::min(dealt_ranks * model::gpus_for_each(request.pinning), rest.size());
  share.is_open = is_open_share(request, all.size(), slots);
  MUSTER_RETURN_IF_ERROR(choose_devices(node, use, rest, least, share));
  MUSTER_ASSIGN_OR_RETURN(const model::NodeBinding binding,
                          model::bind_host(node, rank_requests, request.pinning, request.masks, &share));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> named,
                          named_devices(request, node, use, binding, rank_requests, share.is_open));
  // If the job asks for no number of GPUs and uses k of s slots, it gets k of s parts of the GPUs.
  const bool has_parts = std::ranges::any_of(all, [](const std::string& id) { return model::is_mig_name(id); });
  std::size_t most = least;
  if (!request.asks_for_gpus() && !has_parts) {
    const auto of_slots = std::min(dealt_ranks, static_cast<std::size_t>(std::max(slots, 1)));
    most = std::max(most, all.size() * of_slots / static_cast<std::size_t>(std::max(slots, 1)));
  }
  share.devices = binding.dealt;
  share.devices.resize(std::min(most, share.devices.size()));
  std::ranges::copy_if(named, std::back_inserter(share.devices), [dealt = share.devices](const std::string& id) {
    return std::ranges::find(dealt, id) == dealt.end();
  });
  settle_cores(node, binding, request.pinning.bind_to, rank_requests, share);
  return share;
}

}  // namespace muster::launcherd::queue
