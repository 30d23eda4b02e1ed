// The slots of launcherd's hosts, and which of them a job uses. host_share.h decides about cores and GPUs.
//
// A job uses one slot a rank. With oversubscribe a job may have more ranks than its hosts have slots. The job then uses
// all slots of the hosts that it may use, and starts when all of them are free.
//
// A host's cores and GPUs are known once its agent has reported them. Until then one job at a time starts on the host,
// without a share. Jobs that ask for GPUs or for a binding to depth wait.
//
// Thread: any. Plain values and pure functions.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "launcherd/queue/host_share.h"
#include "model/job_spec.h"
#include "model/placement.h"

namespace muster::launcherd::inline queue {

// The source of a host's number of slots.
enum class SlotSource {
  kList,     // the host's entry in the list gives the number
  kAwaited,  // the agent has not reported its GPUs yet; the host takes no job until then
  kUnknown,  // the agent did not report its GPUs, so the host has one slot
  kAgent,    // the number of GPUs that the agent reports, or one if it reports none
};

struct SlotHost {
  model::HostSpec host;  // the host's entry in launcherd's list
  int slots = 0;
  int used = 0;
  SlotSource source = SlotSource::kList;
  bool is_drained = false;  // true if the host accepts no new job
  bool is_down = false;     // true if the host cannot be reached, so it accepts no new job
  bool is_shared = false;   // true if launcherd counts what jobs use of the host's cores and GPUs
  std::shared_ptr<const model::NodeShape> shape{};  // nullptr while unknown
  HostUse use{};                                    // what jobs use under all names of the host
  // If the list has several names for the host, all of them have the same `machine`.
  static constexpr int kOneName = -1;
  int machine = kOneName;
  int slots_of_names = 0;  // slots under all names of the host together; 0 means that only `slots` counts

  bool is_open() const { return !is_drained && !is_down && source != SlotSource::kAwaited; }
  bool is_known() const { return !is_shared || shape != nullptr; }
  // True while a job starts on the host and the host's cores and GPUs are still unknown.
  bool is_starting() const { return is_shared && shape == nullptr && used > 0; }
  int all_slots() const { return slots_of_names > 0 ? slots_of_names : slots; }
  int free() const { return !is_open() || used > slots ? 0 : slots - used; }
};

// The ranks, hosts, cores and GPUs that a job requests.
struct JobNeed {
  model::PlacementRequest request;  // np > 0; hosts has each name once, empty means any host
  std::vector<model::RankPlace> places;
  ShareRequest share{};

  int ranks() const { return request.np; }
  // nullptr if the job does not name the host.
  const model::HostSpec* wanted(const std::string& host) const;
  // True if both jobs request the same. If one job finds no place, the other finds none either.
  bool is_like(const JobNeed& other) const;
};

bool may_use(const JobNeed& need, const SlotHost& host);
// Returns whether the job may use the host under any of its names.
bool may_use_by_any_name(const JobNeed& need, const SlotHost& host, std::span<const SlotHost> hosts);
// Returns whether the job may start on the host only after the host's agent has reported its cores and GPUs.
bool awaits_host_facts(const JobNeed& need, const SlotHost& host);
// Returns the hosts as if no job ran. Hosts that accept no jobs still accept none.
std::vector<SlotHost> when_idle(std::span<const SlotHost> hosts);

// Counts the slots and shares of a placement as used, or releases them.
void acquire_slots(const model::Placement& placement, std::vector<SlotHost>& hosts);
void release_slots(const model::Placement& placement, std::vector<SlotHost>& hosts);

}  // namespace muster::launcherd::queue
