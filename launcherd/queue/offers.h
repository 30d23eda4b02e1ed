// How many ranks of one job each host takes. What the job could be dealt of GPUs there is looked up once, and only
// where there are slots for it. Borrows the job and the hosts.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcherd/queue/device_lists.h"
#include "launcherd/queue/slots.h"

namespace muster::launcherd::inline queue {

// With what is used, or as if nothing was; without a look at GPUs: ...Slots.
enum class Room { kFree, kIdle, kFreeSlots, kIdleSlots };

// A host that the job may use.
struct Offer {
  const SlotHost* host = nullptr;
  const model::HostSpec* wanted = nullptr;  // as the job names it; nullptr: it names none
  int most = kAnyRanks;                     // of kFree
};

class Offers {
 public:
  // `known`: of a pass over many jobs; nullptr: this is the only one.
  Offers(const JobNeed& need, std::span<const SlotHost> hosts, DeviceLists* known);
  Offers(const Offers&) = delete;
  Offers& operator=(const Offers&) = delete;

  const JobNeed& need() const { return need_; }
  std::span<const SlotHost> hosts() const { return hosts_; }
  std::vector<Offer>& usable() { return offers_; }  // in the job's order of hosts, where it names some
  std::vector<const SlotHost*> usable_hosts() const;

  int room(Offer& offer, Room room);
  // Counts on until there is room for so many ranks.
  long total(Room room, long enough = std::numeric_limits<long>::max());
  // More ranks than the job's hosts have slots: it takes all of them.
  bool is_oversubscribing();
  // GPUs that could be dealt and that nobody has, of all hosts that are open.
  int free_gpus();

 private:
  const std::optional<std::vector<std::string>>& devices(const Offer& offer);
  int wished(const Offer& offer, int slots) const;
  int room_for_gpus(Offer& offer, Room room);
  bool are_gpus_there();

  const JobNeed& need_;
  std::span<const SlotHost> hosts_;
  std::vector<Offer> offers_;
  DeviceLists own_;
  DeviceLists::ByHost* devices_;
  std::optional<bool> are_gpus_there_;
};

}  // namespace muster::launcherd::queue
