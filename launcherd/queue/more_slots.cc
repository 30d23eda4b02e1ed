#include "launcherd/queue/more_slots.h"

#include <algorithm>
#include <optional>

#include "launcherd/queue/fit.h"

namespace muster::launcherd::inline queue {
namespace {

int ranks_on(const model::Placement& own, const std::string& host) {
  const auto found =
      std::ranges::find_if(own.hosts, [&](const model::PlacedHost& placed) { return placed.host.name == host; });
  return found == own.hosts.end() ? 0 : static_cast<int>(found->ranks.size());
}

// Returns how many further ranks the job's own limits allow on the host.
int limit_of_job(const JobNeed& need, const model::HostSpec* wanted, int already) {
  int limit = model::kMaxSlotsPerHost;
  if (need.request.ranks_per_node > 0) limit = need.request.ranks_per_node;
  if (wanted != nullptr && wanted->slots) limit = std::min(limit, *wanted->slots);
  return std::max(0, limit - already);
}

// Returns the host with as many ranks as it can take, at most `most`. nullopt if it can take none.
std::optional<model::HostSpec> offer_of(const JobNeed& need, const SlotHost& host, int most) {
  JobNeed part = need;
  part.places.clear();
  const model::HostSpec* const wanted = need.wanted(host.host.name);
  part.request.hosts = {wanted != nullptr ? *wanted : host.host};
  part.request.hosts.front().slots.reset();
  part.request.ranks_per_node = 0;
  part.request.oversubscribe = false;
  for (int ranks = most; ranks > 0; --ranks) {
    part.request.np = ranks;
    const auto placement = fit(part, std::span(&host, 1));
    if (!placement) continue;
    model::HostSpec offer = placement->hosts.front().host;
    offer.slots = ranks;
    return offer;
  }
  return std::nullopt;
}

}  // namespace

std::vector<model::HostSpec> more_slots(const JobNeed& need, const model::Placement& own,
                                        std::span<const SlotHost> hosts, int most) {
  std::vector<model::HostSpec> offers;
  for (const SlotHost& host : hosts) {
    if (!may_use(need, host)) continue;
    const int already = ranks_on(own, host.host.name);
    const int limit = limit_of_job(need, need.wanted(host.host.name), already);
    if (auto offer = offer_of(need, host, std::min({most, host.free(), limit}))) offers.push_back(*std::move(offer));
  }
  return offers;
}

std::vector<model::HostSpec> most_slots(const JobNeed& need, const model::Placement& own,
                                        std::span<const SlotHost> hosts, int most) {
  std::vector<SlotHost> idle = when_idle(hosts);
  for (SlotHost& host : idle) {
    host.is_drained = host.is_down = false;
    if (host.source == SlotSource::kAwaited) host.source = SlotSource::kUnknown;
    if (!host.is_known()) host.is_shared = false;  // it may have what the job needs
    host.used = std::min(host.slots, ranks_on(own, host.host.name));
  }
  return more_slots(need, own, idle, most);
}

}  // namespace muster::launcherd::queue
