#include "launcherd/daemon/deferred_share.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>

#include "model/cpu_binding.h"
#include "model/host_binding.h"

namespace muster::launcherd::inline daemon {
namespace {

using RankRequests = std::span<const model::RankRequest>;

// Undoes its changes of the table on destruction, unless keep() was called.
class ShareChanges {
 public:
  explicit ShareChanges(HostTable& table) : table_(table) {}
  ShareChanges(const ShareChanges&) = delete;
  ShareChanges& operator=(const ShareChanges&) = delete;
  ~ShareChanges() {
    for (auto each = changes_.rbegin(); each != changes_.rend(); ++each) {
      if (each->now) table_.release_share(each->host, *each->now);
      if (each->before) table_.acquire_share(each->host, *each->before);
    }
  }
  void release(const std::string& host, const model::HostShare& share) {
    table_.release_share(host, share);
    changes_.push_back({host, share, std::nullopt});
  }
  void acquire(const std::string& host, const model::HostShare& share) {
    table_.acquire_share(host, share);
    changes_.push_back({host, std::nullopt, share});
  }
  void keep() { changes_.clear(); }

 private:
  struct Change {
    std::string host;
    std::optional<model::HostShare> before;
    std::optional<model::HostShare> now;
  };
  HostTable& table_;
  std::vector<Change> changes_;
};

base::Status share_error(const JobNeed& need, const KnownHost& known, const SlotHost& host, RankRequests rank_requests,
                         bool had_one, const base::Status& why) {
  if (had_one) {
    return base::failed_precondition("its cores or GPUs have changed since the job was placed: {}", why.message());
  }
  const auto alone = share_of(need.share, known.shape, {}, host.all_slots(), rank_requests);
  if (!alone.ok()) return alone.status();  // the share would be impossible even if no other job ran
  return base::unavailable("{}: other jobs use them", why.message());
}

}  // namespace

std::optional<model::HostShare> share_that_runs(const ShareRequest& request, const model::NodeShape& node, int slots,
                                                std::span<const model::RankRequest> rank_requests) {
  const auto binding = model::bind_host(node, rank_requests, request.pinning, request.masks, nullptr);
  const auto all = model::devices_of_job(node, request.pinning, request.masks);
  if (!binding.ok() || !all.ok()) return std::nullopt;
  model::HostShare share;
  share.is_open = is_open_share(request, all->size(), slots);
  std::vector<int> cpus;
  for (const model::RankBinding& rank : binding->cores) cpus.insert(cpus.end(), rank.cpus.begin(), rank.cpus.end());
  std::ranges::sort(cpus);
  share.cpus = model::whole_cores(node, cpus);
  for (const model::RankGpus& rank : binding->gpus) {
    for (const std::string& id : rank.devices) {
      if (std::ranges::find(share.devices, id) == share.devices.end()) share.devices.push_back(id);
    }
  }
  return share;
}

bool still_exists(const model::HostShare& share, const ShareRequest& request, const model::NodeShape& node,
                  std::span<const model::RankRequest> rank_requests) {
  const auto binding = model::bind_host(node, rank_requests, request.pinning, request.masks, &share);
  const auto all = model::devices_of_job(node, request.pinning, request.masks);
  if (!binding.ok() || !all.ok()) return false;
  std::set<std::string> there(all->begin(), all->end());
  for (const model::RankGpus& rank : binding->gpus) there.insert(rank.devices.begin(), rank.devices.end());
  return std::ranges::all_of(share.devices, [&](const std::string& id) { return there.contains(id); });
}

base::Result<std::vector<SettledShare>> settle_shares(const JobNeed& need, const model::Placement& placement,
                                                      const std::vector<KnownHost>& known, Settling settling,
                                                      HostTable& table) {
  const bool has_ranks = std::ranges::any_of(known, &KnownHost::has_launched);
  std::vector<SettledShare> settled;
  ShareChanges changes(table);
  std::unordered_map<std::string_view, const KnownHost*> by_name;
  for (const KnownHost& host : known) by_name.emplace(host.name, &host);
  for (const model::PlacedHost& placed : placement.hosts) {
    const auto found = by_name.find(placed.host.name);
    if (found == by_name.end()) continue;
    const KnownHost* const host = found->second;
    const std::optional<model::HostShare>& old = placed.share;
    const auto rank_requests = model::requests_on(need.places, need.share.role_masks, placed);
    const bool may_change = settling == Settling::kBeforeLaunch && !host->has_launched;
    if (old && (!may_change || still_exists(*old, need.share, host->shape, rank_requests))) continue;
    const auto listed = table.find(host->name);
    if (!old && !listed.ok()) continue;  // the host left the list, so no other job is placed there
    if (old) changes.release(host->name, *old);
    std::optional<model::HostShare> share;
    if (host->has_launched) {
      share = share_that_runs(need.share, host->shape, (*listed)->all_slots(), rank_requests);
    } else if (listed.ok()) {
      auto decided = share_of(need.share, host->shape, (*listed)->use, (*listed)->all_slots(), rank_requests);
      if (!decided.ok() && (old || !has_ranks)) {
        return share_error(need, *host, **listed, rank_requests, old.has_value(), decided.status())
            .with_context(host->name);
      }
      if (decided.ok()) share = *std::move(decided);
    }
    if (!old && !share) continue;
    if (share) changes.acquire(host->name, *share);
    settled.push_back({host->name, share});
  }
  changes.keep();
  return settled;
}

}  // namespace muster::launcherd::daemon
