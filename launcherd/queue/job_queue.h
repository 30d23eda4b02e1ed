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
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "launcherd/queue/device_lists.h"
#include "launcherd/queue/slots.h"

namespace muster::launcherd::inline queue {

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

  // Why jobs of the queue wait, for people. For many of them with one look at the hosts; borrows both, which do not
  // change meanwhile.
  class Reasons;
  std::string reason(const base::JobId& id, const std::vector<SlotHost>& hosts) const;

 private:
  using Key = std::pair<std::int64_t, std::uint64_t>;  // minus priority, number: in this order they start
  struct Entry {
    base::JobId id;
    int kind = 0;
    int overtaken = 0;  // by jobs that took slots which this one could use, while it was the head
  };
  // Jobs that ask for the same (JobNeed::is_like): where the first finds no place, no other one does, so that it is
  // looked for once however many wait.
  struct Kind {
    JobNeed need;
    std::set<Key> waiting;  // never empty
  };
  // The first job of each kind, in the order in which they start.
  std::set<std::pair<Key, int>> firsts() const;
  void forget(const Key& key);

  std::map<Key, Entry> entries_;
  std::map<base::JobId, Key> keys_;
  std::map<int, Kind> kinds_;
  int next_kind_ = 0;
};

class JobQueue::Reasons {
 public:
  Reasons(const JobQueue& queue, const std::vector<SlotHost>& hosts) : queue_(queue), hosts_(hosts) {}
  // Empty: it is not in the queue.
  std::string of(const base::JobId& id);

 private:
  // Why jobs of the kind do not start; empty: they would fit.
  const std::string& of_kind(int kind);
  const Entry* head();

  const JobQueue& queue_;
  const std::vector<SlotHost>& hosts_;
  std::map<int, std::string> kinds_;
  DeviceLists devices_;
  std::optional<const Entry*> head_;
};

}  // namespace muster::launcherd::queue
