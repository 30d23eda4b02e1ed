#include "launcherd/daemon/late_share.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "model/host_binding.h"

namespace muster::launcherd {

std::optional<model::HostShare> share_that_runs(const ShareWish& wish, const model::NodeShape& node, int slots,
                                                std::span<const model::RankPlace* const> places) {
  const auto binding = model::bind_host(node, places, wish.pinning, wish.masks, nullptr);
  const auto all = model::devices_of_job(node, wish.pinning, wish.masks);
  if (!binding.ok() || !all.ok()) return std::nullopt;
  model::HostShare share;
  share.is_open = wish.pinning.share_gpu || (!wish.asks_for_gpus() && std::cmp_less(all->size(), slots));
  std::set<int> cpus;
  for (const model::RankBinding& rank : binding->cores) cpus.insert(rank.cpus.begin(), rank.cpus.end());
  for (const model::CoreShape& core : node.cores) {
    if (std::ranges::none_of(core.cpus, [&](int cpu) { return cpus.contains(cpu); })) continue;
    std::ranges::copy(core.cpus, std::back_inserter(share.cpus));
  }
  std::ranges::sort(share.cpus);
  for (const model::RankGpus& rank : binding->gpus) {
    for (const std::string& id : rank.devices) {
      if (std::ranges::find(share.devices, id) == share.devices.end()) share.devices.push_back(id);
    }
  }
  return share;
}

bool is_there_still(const model::HostShare& share, const ShareWish& wish, const model::NodeShape& node,
                    std::span<const model::RankPlace* const> places) {
  const auto binding = model::bind_host(node, places, wish.pinning, wish.masks, &share);
  const auto all = model::devices_of_job(node, wish.pinning, wish.masks);
  if (!binding.ok() || !all.ok()) return false;
  std::set<std::string> there(all->begin(), all->end());
  for (const model::RankGpus& rank : binding->gpus) there.insert(rank.devices.begin(), rank.devices.end());
  return std::ranges::all_of(share.devices, [&](const std::string& id) { return there.contains(id); });
}

}  // namespace muster::launcherd
