// Counts how many ranks of one job each host can accept. It determines the GPUs that the job could get on a host only
// once, and only if the host has slots for it.
//
// Owner: one call of fit() or why_not(). It borrows the job and the hosts.
// Thread: one thread.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcherd/queue/device_lists.h"
#include "launcherd/queue/slots.h"

namespace muster::launcherd::inline queue {

// The kind of count. kFree subtracts what jobs use, kIdle assumes that no job runs. The ...Slots variants ignore GPUs.
enum class Room { kFree, kIdle, kFreeSlots, kIdleSlots };

// A host that the job may use.
struct Offer {
  const SlotHost* host = nullptr;
  const model::HostSpec* wanted = nullptr;  // the job's entry for the host; nullptr if the job names no hosts
  int most = kAnyRanks;                     // limit for kFree
};

class Offers {
 public:
  // One pass over many jobs shares `known`. nullptr if this is the only job.
  Offers(const JobNeed& need, std::span<const SlotHost> hosts, DeviceLists* known);
  Offers(const Offers&) = delete;
  Offers& operator=(const Offers&) = delete;

  const JobNeed& need() const { return need_; }
  std::span<const SlotHost> hosts() const { return hosts_; }
  std::vector<Offer>& usable() { return offers_; }  // in the job's order if it names hosts
  std::vector<const SlotHost*> usable_hosts() const;

  int room(Offer& offer, Room room);
  // Sums the room of the hosts, and stops once it reaches `enough`.
  long total(Room room, long enough = std::numeric_limits<long>::max());
  // True if the job oversubscribes and has more ranks than its hosts have slots. It then takes all slots.
  bool is_oversubscribing();
  // Returns the number of unused GPUs that the job could get, on all hosts that accept jobs.
  int free_gpus();

 private:
  const std::optional<std::vector<std::string>>& devices(const Offer& offer);
  int max_slots(const Offer& offer, int slots) const;
  int room_for_gpus(Offer& offer, Room room);
  bool has_gpu_hosts();

  const JobNeed& need_;
  std::span<const SlotHost> hosts_;
  std::vector<Offer> offers_;
  DeviceLists own_;
  DeviceLists::ByHost* devices_;
  std::optional<bool> has_gpu_hosts_;
};

}  // namespace muster::launcherd::queue
