// The jobs that wait for slots. The queue decides which of them start: by priority, then by number, with backfill.
//
// The head is the first waiting job that would start if nothing ran on the hosts that accept jobs now. Later jobs may
// start on free slots, even on slots that the head could use. They may overtake the head only kMostOvertakes times.
// After that, the queue reserves the free slots of all hosts that the head may use until the head starts.
//
// So every job that could run starts at some time. A job waits only for earlier jobs and for the ends of running jobs.
// Later jobs of a higher priority go before it.
//
// Jobs belong to groups, such as the jobs of one submitter. With fair use, the order among jobs of equal priority is:
// the job whose group uses the fewest slots now, then the earlier job. A job then also waits for later jobs of groups
// that use fewer slots than its own.
//
// Owner: JobManager.
// Thread: one thread. A plain value without I/O.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
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

  // With fair use, the groups of jobs matter. Call it before the first add().
  void use_fairly() { is_fair_ = true; }

  struct Place {
    int priority = 0;
    std::uint64_t number = 0;  // in the order of submission; no two jobs have the same number
    std::string group{};       // see above
    std::int64_t copies = 1;   // how often start() may return the job; an array has one for each element
  };
  void add(const base::JobId& id, Place place, JobNeed need);
  void add(const base::JobId& id, int priority, std::uint64_t number, JobNeed need) {
    add(id, Place{.priority = priority, .number = number}, std::move(need));
  }
  // Changes a job that the queue has, held or not. Returns false if the queue lacks it.
  bool set_priority(const base::JobId& id, int priority);
  bool set_copies(const base::JobId& id, std::int64_t copies);  // at least 1
  // Counts slots that a group uses, or uses no longer (negative).
  void count_use(const std::string& group, std::int64_t slots);
  // Removes a job. Returns false if the queue does not hold it.
  bool remove(const base::JobId& id);
  // Keeps a waiting job from starting. Later jobs go before it, and no slots are reserved for it. Does nothing if the
  // queue does not hold the job.
  void hold(const base::JobId& id);
  // Ends a hold. The job has its former place in the order again, and its overtakes count from 0.
  void release(const base::JobId& id);
  // The number of jobs that may start. Does not count held jobs.
  std::size_t size() const { return entries_.size(); }
  // Returns whether the job may start. False for held jobs.
  bool has(const base::JobId& id) const { return keys_.contains(id); }

  // Returns the jobs that start now, in order, and removes them. A job with several copies may be returned several
  // times, and stays while copies are left. Counts the slots as used in `hosts` and by the jobs' groups.
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
    std::int64_t copies = 1;
    int overtakes = 0;  // how many jobs took slots which this job could use while it was the head
  };
  // Jobs with equal needs (JobNeed::is_like), and with fair use of one group. If the first of them finds no place, the
  // others find none either, so the search runs once for all.
  struct Kind {
    JobNeed need;
    std::string group;
    std::set<Key> waiting;  // never empty
  };
  struct Held {
    Place place;
    JobNeed need;
  };
  // Minus the priority, the slots that the group uses, the number.
  using Turn = std::tuple<std::int64_t, std::int64_t, std::uint64_t>;
  Place place_of(const Key& key, const Entry& entry) const;
  Turn turn_of(const Kind& kind) const;  // of its first job
  // Returns the kinds in the order in which their first jobs start.
  std::set<std::pair<Turn, int>> turns() const;
  // Sorts the kinds of a group among `turns` again, after the group's use has changed.
  void sort_again(const std::string& group, std::set<std::pair<Turn, int>>& turns) const;
  void forget(const Key& key);

  std::map<Key, Entry> entries_;
  std::map<base::JobId, Key> keys_;
  std::map<int, Kind> kinds_;
  int next_kind_ = 0;
  std::map<base::JobId, Held> held_;  // not in the other members
  bool is_fair_ = false;
  std::map<std::string, std::int64_t> used_;  // slots by group; no group with 0
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
