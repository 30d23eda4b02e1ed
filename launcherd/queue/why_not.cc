#include "launcherd/queue/why_not.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include <fmt/format.h>

#include "launcherd/queue/fit.h"
#include "launcherd/queue/job_need.h"
#include "launcherd/queue/offers.h"

namespace muster::launcherd::inline queue {
namespace {

std::string slot_count(long count) {
  return fmt::format("{} {}", count, count == 1 ? "slot" : "slots");
}

std::string names(const std::vector<const SlotHost*>& hosts) {
  if (hosts.empty()) return "no host";
  if (hosts.size() == 1) return hosts.front()->host.name;
  if (hosts.size() == 2) return fmt::format("{} and {}", hosts.front()->host.name, hosts.back()->host.name);
  return fmt::format("{}..{}", hosts.front()->host.name, hosts.back()->host.name);
}

std::string closed_remark(const std::vector<const SlotHost*>& hosts) {
  std::vector<const SlotHost*> drained;
  std::vector<const SlotHost*> down;
  std::ranges::copy_if(hosts, std::back_inserter(drained), &SlotHost::is_drained);
  std::ranges::copy_if(hosts, std::back_inserter(down),
                       [](const SlotHost* host) { return host->is_down && !host->is_drained; });
  std::vector<const SlotHost*> unreported;
  std::ranges::copy_if(hosts, std::back_inserter(unreported), [](const SlotHost* host) {
    return host->source == SlotSource::kAwaited && !host->is_down && !host->is_drained;
  });
  std::string remark;
  if (!drained.empty()) remark += fmt::format("; {} {} drained", names(drained), drained.size() == 1 ? "is" : "are");
  if (!down.empty()) remark += fmt::format("; {} cannot be reached", names(down));
  if (!unreported.empty()) {
    remark +=
        fmt::format("; {} not reported {} GPUs yet", names(unreported) + (unreported.size() == 1 ? " has" : " have"),
                    unreported.size() == 1 ? "its" : "their");
  }
  return remark;
}

// Names hosts whose slots are unknown. The refused job might have fitted on them.
std::string uncounted_remark(const std::vector<const SlotHost*>& hosts) {
  std::vector<const SlotHost*> uncounted;
  std::ranges::copy_if(hosts, std::back_inserter(uncounted), [](const SlotHost* host) {
    return host->source == SlotSource::kAwaited || host->source == SlotSource::kUnknown;
  });
  if (uncounted.empty()) return "";
  return fmt::format("; {} {} as one slot, because {} GPUs are unknown (muster hosts shows the reason)",
                     names(uncounted), uncounted.size() == 1 ? "counts" : "count each",
                     uncounted.size() == 1 ? "its" : "their");
}

std::string why_no_places(const JobNeed& need, std::span<const SlotHost> hosts) {
  for (const auto& [name, count] : ranks_by_host(need)) {
    const SlotHost* const host = find_host(hosts, name);
    if (host == nullptr) return fmt::format("needs host {}, which is no longer in launcherd's list", name);
    if (host->is_drained) return fmt::format("needs {} on {}, which is drained", slot_count(count), name);
    if (host->is_down) return fmt::format("needs {} on {}, which cannot be reached", slot_count(count), name);
    if (!host->is_open())
      return fmt::format("needs {} on {}, which has not reported its GPUs yet", slot_count(count), name);
    if (host->free() < count) {
      return fmt::format("needs {} on {}, {} {} free there", slot_count(count), name, host->free(),
                         host->free() == 1 ? "is" : "are");
    }
  }
  return "";
}

// Returns what a job waits for although enough slots are free.
std::string missing_share(const JobNeed& need, std::span<const SlotHost> hosts, DeviceLists* known) {
  const auto unreported = std::ranges::find_if(
      hosts, [&](const SlotHost& host) { return host.is_open() && may_use(need, host) && host.is_starting(); });
  if (unreported != hosts.end()) {
    return fmt::format("waits until {} reports its cores and GPUs: another job is starting there",
                       unreported->host.name);
  }
  const auto unknown = std::ranges::find_if(hosts, [&](const SlotHost& host) { return awaits_host_facts(need, host); });
  if (unknown != hosts.end()) {
    return fmt::format("waits until {} reports its {}", unknown->host.name,
                       need.share.pinning.bind_to == model::BindTo::kDepth ? "cores and GPUs" : "GPUs");
  }
  Offers offers(need, hosts, known);
  if (need.places.empty() && offers.total(Room::kFree) < need.ranks()) {
    const bool asks = need.share.asks_for_gpus();
    const long wanted = static_cast<long>(need.ranks()) * std::max(need.share.pinning.gpus_per_rank, 1);
    const int free = offers.free_gpus();
    const char* const noun = need.share.pinning.gpu_bind == model::GpuBind::kTile ? "tile" : "GPU";
    return fmt::format("needs {} {}{}, {} {} free on {}{}", wanted, noun, wanted == 1 ? "" : "s", free,
                       free == 1 ? "is" : "are", names(offers.usable_hosts()),
                       asks ? "" : " (--gpu-bind none if its ranks need none)");
  }
  const auto misfit = find_misfit(need, hosts, known);
  return misfit ? fmt::format("{}: {}", misfit->host, misfit->why.message()) : "waits for its turn";
}

// More hosts may join, so the job waits. The text also says whether some host in the present list could run the job.
std::string why_no_share(const JobNeed& need, std::span<const SlotHost> hosts, DeviceLists* known) {
  const std::string why = missing_share(need, hosts, known);
  return never_fits(need, hosts) ? why + "; none of the present hosts could ever run it" : why;
}

}  // namespace

std::string why_not(const JobNeed& need, std::span<const SlotHost> hosts, DeviceLists* known) {
  for (const model::HostSpec& wanted : need.request.hosts) {
    const bool is_known =
        std::ranges::any_of(hosts, [&](const SlotHost& host) { return host.host.name == wanted.name; });
    if (!is_known) return fmt::format("needs host {}, which is no longer in launcherd's list", wanted.name);
  }
  if (!need.places.empty()) {
    const std::string why = why_no_places(need, hosts);
    return why.empty() ? why_no_share(need, hosts, known) : why;
  }
  Offers offers(need, hosts, known);
  const auto usable = offers.usable_hosts();
  if (offers.is_oversubscribing()) {
    if (std::ranges::any_of(usable, [&](const SlotHost* host) { return awaits_host_facts(need, *host); })) {
      return why_no_share(need, hosts, known);
    }
    return fmt::format("needs all slots of {} for its {} ranks{}", names(usable), need.ranks(), closed_remark(usable));
  }
  const long room = offers.total(Room::kFreeSlots);
  if (room >= need.ranks()) return why_no_share(need, hosts, known);
  return fmt::format("needs {}, {} {} free on {}{}", slot_count(need.ranks()), room, room == 1 ? "is" : "are",
                     names(usable), closed_remark(usable));
}

std::string why_never(const JobNeed& need, std::span<const SlotHost> hosts) {
  if (!need.places.empty()) return fmt::format("spec.hosts.ranks: {}", why_no_places(need, hosts));
  Offers offers(need, hosts, nullptr);
  const auto usable = offers.usable_hosts();
  return fmt::format("spec.size: the job needs {}, but {} together {} only {} for it{}{}", slot_count(need.ranks()),
                     names(usable), usable.size() == 1 ? "has" : "have", offers.total(Room::kIdle),
                     need.request.oversubscribe ? "" : ": ask for fewer, or set oversubscribe (--oversubscribe)",
                     uncounted_remark(usable));
}

}  // namespace muster::launcherd::queue
