// Which slots of launcherd's hosts a job takes, and what of the cores and GPUs there (host_share.h). Plain values, pure
// functions.
//
// A job takes one slot a rank. With more ranks than its hosts have slots (oversubscribe) it takes all slots of the
// hosts that it may use, and starts when all of them are free. What a host has is known when an agent has been there;
// until then one job at a time is started on it, and has no share; who asks for GPUs or many cores is not started
// there.
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

// Where the number of a host's slots comes from.
enum class SlotSource {
  kList,     // its entry says it
  kAwaited,  // its agent is asked for its GPUs: takes no job until then
  kUnknown,  // its agent could not be asked: one slot
  kAgent,    // as many as GPUs, else one
};

struct SlotHost {
  model::HostSpec host;  // as launcherd's list has it
  int slots = 0;
  int used = 0;
  SlotSource source = SlotSource::kList;
  bool is_drained = false;                          // takes no new job
  bool is_down = false;                             // cannot be reached: likewise
  bool is_shared = false;                           // what jobs have of it is counted
  std::shared_ptr<const model::NodeShape> shape{};  // null: not known yet
  HostUse use{};                                    // by whatever name of the host
  // The list has other names for the same host: those have the same number.
  static constexpr int kOneName = -1;
  int machine = kOneName;
  int slots_of_names = 0;  // of all of its names together; 0: `slots`

  bool is_open() const { return !is_drained && !is_down && source != SlotSource::kAwaited; }
  bool is_known() const { return !is_shared || shape != nullptr; }
  // A job is being started there, and what it will have is not known.
  bool is_asked() const { return is_shared && shape == nullptr && used > 0; }
  int all_slots() const { return slots_of_names > 0 ? slots_of_names : slots; }
  int free() const { return !is_open() || used > slots ? 0 : slots - used; }
};

// What a job asks of the hosts.
struct JobNeed {
  model::PlacementRequest request;  // np > 0; hosts: each name once, empty: any
  std::vector<model::RankPlace> places;
  ShareWish share{};

  int ranks() const { return request.np; }
  // nullptr: it does not name the host.
  const model::HostSpec* wanted(const std::string& host) const;
  // Where the one finds no place, the other does not either.
  bool is_like(const JobNeed& other) const;
};

bool may_use(const JobNeed& need, const SlotHost& host);
// It, or the same host by another name.
bool may_use_by_any_name(const JobNeed& need, const SlotHost& host, std::span<const SlotHost> hosts);
// It may be started there, as soon as it is known what the host has.
bool waits_for_news(const JobNeed& need, const SlotHost& host);
// As they would be if nothing ran; those that are not open stay so.
std::vector<SlotHost> when_idle(std::span<const SlotHost> hosts);

// Slots and shares of a job's placement, counted as used or given back.
void take_slots(const model::Placement& placement, std::vector<SlotHost>& hosts);
void give_slots(const model::Placement& placement, std::vector<SlotHost>& hosts);

}  // namespace muster::launcherd::queue
