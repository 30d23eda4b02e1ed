#include "launcherd/queue/room_bound.h"

#include <algorithm>

#include "model/cpu_binding.h"

namespace muster::launcherd::inline queue {
namespace {

// Keeps the settings that decide which GPUs a job could get. The cores and the number of GPUs a rank do not matter.
model::Pinning devices_key(const model::Pinning& pinning) {
  static const model::Pinning kDefault;
  model::Pinning key = pinning;
  key.bind_to = kDefault.bind_to;
  key.depth = kDefault.depth;
  key.cpu_lists.clear();
  key.hyperthreads = kDefault.hyperthreads;
  key.reserved_cores.clear();
  key.share_gpu = kDefault.share_gpu;
  key.gpus_per_rank = std::min(pinning.gpus_per_rank, 1);
  return key;
}

// Returns how many of `slots` the job may use.
int max_slots(const JobNeed& need, const model::HostSpec* wanted, int slots) {
  if (wanted != nullptr && wanted->slots) slots = std::min(slots, *wanted->slots);
  return need.request.ranks_per_node > 0 ? std::min(slots, need.request.ranks_per_node) : slots;
}

}  // namespace

RoomBound::RoomBound(std::span<const SlotHost> hosts) : hosts_(hosts) {
  index_.reserve(hosts.size());
  for (std::size_t i = 0; i < hosts.size(); ++i) index_.emplace(hosts[i].host.name, i);
}

bool RoomBound::may_fit(const JobNeed& need) {
  // A job that oversubscribes may use more than the slots. A job with places names the hosts of its ranks itself.
  if (need.request.oversubscribe || !need.places.empty()) return true;
  Devices* const devices = devices_of(need);
  Sum sum;
  if (need.request.hosts.empty()) {
    for (std::size_t i = 0; i < hosts_.size() && sum.with_gpus < need.ranks(); ++i) add(need, nullptr, devices, i, sum);
  }
  for (const model::HostSpec& wanted : need.request.hosts) {
    const auto found = index_.find(wanted.name);
    if (found != index_.end()) add(need, &wanted, devices, found->second, sum);
  }
  if (sum.with_gpus >= need.ranks()) return true;
  // If a host with GPUs exists, a job that asks for GPUs gets no host without GPUs (Offers::has_gpu_hosts()).
  const bool wants_all_slots = !need.request.hosts.empty() && need.ranks() >= sum.max_slots;
  const bool leaves_others = need.share.asks_for_gpus() && !wants_all_slots && sum.has_gpu_hosts;
  return !leaves_others && sum.with_gpus + sum.without_gpus >= need.ranks();
}

// Returns nullptr if the job is placed without regard to GPUs.
RoomBound::Devices* RoomBound::devices_of(const JobNeed& need) {
  if (need.share.pinning.gpu_bind == model::GpuBind::kNone) return nullptr;
  const model::Pinning key = devices_key(need.share.pinning);
  const auto found = std::ranges::find_if(
      devices_, [&](const Devices& each) { return each.pinning == key && each.masks == need.share.masks; });
  if (found != devices_.end()) return &*found;
  return &devices_.emplace_back(
      Devices{.pinning = key, .masks = need.share.masks, .hosts = std::vector<HostDevices>(hosts_.size())});
}

const DeviceCounts& RoomBound::counts(const ShareRequest& request, Devices& devices, std::size_t index) {
  const SlotHost& host = hosts_[index];
  HostDevices& known = devices.hosts[index];
  if (known.is_known && known.use.is_same(host.use)) return known.counts;
  known = {.is_known = true, .use = host.use, .counts = {}};
  const auto all = devices_for(request, *host.shape);
  known.counts = all ? count_devices(*all, *host.shape, host.use) : DeviceCounts{.is_error = true};
  return known.counts;
}

// Returns how many ranks --bind-to depth allows. Every rank needs its own threads on one socket, on unused cores.
int RoomBound::most_by_depth(const model::Pinning& pinning, std::size_t index) {
  const SlotHost& host = hosts_[index];
  if (host.shape->cores.empty()) return kAnyRanks;
  threads_.resize(hosts_.size());
  HostThreads& known = threads_[index];
  if (!known.is_known || !known.use.is_same(host.use)) {
    known = {.is_known = true, .use = host.use, .free_by_socket = {}};
    for (const model::CoreShape& core : host.shape->cores) {
      if (model::touches(core, host.use.cpus())) continue;
      known.free_by_socket[core.socket] += static_cast<int>(core.cpus.size());
    }
  }
  int most = 0;
  for (const auto& [socket, threads] : known.free_by_socket) most += threads / std::max(pinning.depth, 1);
  return most;
}

void RoomBound::add(const JobNeed& need, const model::HostSpec* wanted, Devices* devices, std::size_t index, Sum& sum) {
  const SlotHost& host = hosts_[index];
  if (wanted != nullptr) sum.max_slots += max_slots(need, wanted, host.slots);
  if (need.share.is_choosy() && !host.is_known() && host.is_open()) {
    sum.has_gpu_hosts = true;  // the host may have GPUs
    return;
  }
  const DeviceCounts* const there =
      devices != nullptr && host.shape != nullptr ? &counts(need.share, *devices, index) : nullptr;
  const bool has_gpus = there != nullptr && there->all > 0;
  sum.has_gpu_hosts = sum.has_gpu_hosts || has_gpus;
  int most = max_slots(need, wanted, host.free());
  if (most <= 0 || host.is_starting()) return;
  if (there != nullptr && there->is_error) return;  // share_of() would fail
  if (there != nullptr && need.share.role_masks.empty()) {
    most = std::min(most, ranks_for_gpus(need.share, *there, host.all_slots()));
  }
  if (host.shape != nullptr && need.share.pinning.bind_to == model::BindTo::kDepth && most > 0) {
    most = std::min(most, most_by_depth(need.share.pinning, index));
  }
  (there == nullptr || has_gpus ? sum.with_gpus : sum.without_gpus) += most;
}

}  // namespace muster::launcherd::queue
