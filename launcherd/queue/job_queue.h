// The jobs that wait for slots. The queue decides which of them start: by priority, then by number, with backfill.
//
// The head is the first waiting job that would start if nothing ran on the hosts that accept jobs now. Later jobs may
// start on free slots, even on slots that the head could use. They may overtake the head only kMostOvertakes times.
// After that, the queue reserves the free slots of all hosts that the head may use until the head starts.
//
// So every job that could run starts at some time. A job waits only for earlier jobs and for the ends of running jobs.
// Later jobs of a higher priority go before it.
//
// Owner: JobManager.
// Thread: one thread. A plain value without I/O.
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
#include "launcherd/queue/give_back.h"
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

  // Adds a job. `number` is its place in the order of submission; no two jobs have the same number.
  void add(const base::JobId& id, int priority, std::uint64_t number, JobNeed need);
  // Removes a job. Returns false if the queue does not hold it.
  bool remove(const base::JobId& id);
  // Keeps a waiting job from starting. Later jobs go before it, and no slots are reserved for it. Does nothing if the
  // queue does not hold the job.
  void hold(const base::JobId& id);
  // Ends a hold. The job has its former place in the order again, and its overtakes count from 0.
  void release(const base::JobId& id);
  // The number of jobs that may start. Does not count held jobs.
  std::size_t size() const { return entries_.size(); }

  // Removes and returns the jobs that start now, in order. Counts their slots as used in `hosts`.
  std::vector<Start> start(std::vector<SlotHost>& hosts);

  // Returns the hosts whose facts a waiting job needs before it can start on them.
  std::vector<model::HostSpec> hosts_to_ask(const std::vector<SlotHost>& hosts) const;

  // Returns the head: the first job that waits for the ends of running jobs. nullopt if there is none.
  std::optional<WaitingJob> head(const std::vector<SlotHost>& hosts) const;
  // From now on no later job starts before this one. Call it when running jobs give their slots to this job.
  void reserve_for(const base::JobId& id);

  // Explains to users why jobs wait. One Reasons object serves many jobs with one pass over the hosts. It borrows the
  // queue and the hosts, which must not change while it lives.
  class Reasons;
  // Empty for a held job.
  std::string reason(const base::JobId& id, const std::vector<SlotHost>& hosts) const;

 private:
  using Key = std::pair<std::int64_t, std::uint64_t>;  // minus priority, number; jobs start in this order
  struct Entry {
    base::JobId id;
    int kind = 0;
    int overtakes = 0;  // how many jobs took slots which this job could use while it was the head
  };
  // Jobs with equal needs (JobNeed::is_like). If the first of them finds no place, the others find none either, so the
  // search runs once for all.
  struct Kind {
    JobNeed need;
    std::set<Key> waiting;  // never empty
  };
  struct Held {
    Key key;
    JobNeed need;
  };
  void insert(const base::JobId& id, const Key& key, JobNeed need);
  // Returns the first job of each kind, in the order in which they start.
  std::set<std::pair<Key, int>> firsts() const;
  void forget(const Key& key);

  std::map<Key, Entry> entries_;
  std::map<base::JobId, Key> keys_;
  std::map<int, Kind> kinds_;
  int next_kind_ = 0;
  std::map<base::JobId, Held> held_;  // not in the other members
};

class JobQueue::Reasons {
 public:
  Reasons(const JobQueue& queue, const std::vector<SlotHost>& hosts) : queue_(queue), hosts_(hosts) {}
  // Empty if the job is not in the queue, or held.
  std::string of(const base::JobId& id);
  // nullptr if no job waits for the ends of running jobs.
  const Entry* head();

 private:
  // Returns why jobs of the kind do not start. Empty if they would fit.
  const std::string& of_kind(int kind);

  const JobQueue& queue_;
  const std::vector<SlotHost>& hosts_;
  std::map<int, std::string> kinds_;
  DeviceLists devices_;
  std::optional<const Entry*> head_;
};

}  // namespace muster::launcherd::queue
