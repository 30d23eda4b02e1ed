// The jobs that wait for slots, and which of them start: by priority, then in the order of their numbers, with
// backfill. Pure; a value.
//
// The head is the first waiting job that would start if nothing ran on the hosts that are open now. What comes after it
// may start in what is free, also on slots that the head could use, but only kMostOvertakes times: from then on the
// free slots of all hosts that the head may use are kept for it until it starts. So every job starts that could run,
// once those ahead of it have started and those that run have ended; jobs of a higher priority that come later go
// before it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "launcherd/placement/slots.h"

namespace muster::launcherd {

class JobQueue {
 public:
  static constexpr int kMostOvertakes = 16;

  struct Start {
    base::JobId id;
    model::Placement placement;
    JobNeed need;
  };

  // `number`: in the order of submission; no two jobs have the same.
  void add(const base::JobId& id, int priority, std::uint64_t number, JobNeed need);
  // False: it does not wait here.
  bool remove(const base::JobId& id);
  std::size_t size() const { return entries_.size(); }

  // Takes out what starts now, first one first, and counts its slots as used in `hosts`.
  std::vector<Start> start(std::vector<SlotHost>& hosts);

  // Those of which a job that waits must know what they have, before it is started there.
  std::vector<model::HostSpec> hosts_to_ask(const std::vector<SlotHost>& hosts) const;

  // Why a job of the queue waits, for people; empty: it is not in the queue.
  std::string reason(const base::JobId& id, const std::vector<SlotHost>& hosts) const;

 private:
  struct Entry {
    base::JobId id;
    JobNeed need;
    int overtaken = 0;  // by jobs that took slots which this one could use, while it was the head
  };
  using Key = std::pair<std::int64_t, std::uint64_t>;  // minus priority, number: in this order they start

  // `idle`: when_idle().
  const Entry* head(const std::vector<SlotHost>& hosts, const std::vector<SlotHost>& idle) const;

  std::map<Key, Entry> entries_;
  std::map<base::JobId, Key> keys_;
};

}  // namespace muster::launcherd
