// Decides on which hosts the ranks of a job start again after a generation has failed. A generation is one start of all
// ranks of the job.
//
// Rules:
// - A host that did not start or was lost is not used again in the job. With FailurePolicy::failed_host_cooldown it is
//   a spare again after that time, the last one to be used.
// - A host whose ranks ended two generations in a row counts as failed too, if another host can do its work.
// - A spare takes the place of a failed host, and no more slots than that host had. So the ranks on all other hosts
//   keep their numbers, unless the spare has fewer slots.
// - With OnFailure::kShrink the job goes on with fewer ranks if spares are missing. It takes back what it lost as soon
//   as a later spare has the slots.
// - Only failures of ranks without progress count against JobSpec::max_restarts. Changes of hosts are free, because
//   each uses up a host, at least for a time. A resize is free as well.
// - If a pool owns the hosts (launcherd), offer() replaces the spares before each call of next(). A resize takes the
//   last ranks away first, so that all others keep their numbers.
//
// Owner: RestartingJob. A plain value without I/O.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "model/failure_policy.h"
#include "model/job_spec.h"
#include "model/placement.h"

namespace muster::launcherd::inline run {

// How a generation ended.
struct GenerationEnd {
  std::vector<std::string> bad_hosts{};  // names of hosts that did not start, were lost, or may keep processes
  std::string failed_host{};             // the host of the rank that failed by itself; empty if no rank did
  bool has_progress = false;             // the job got further than before (FailurePolicy::progress_text and others)
  bool is_resize = false;                // the generation was ended to change the number of ranks
  base::WallTime at{};                   // when it ended
  std::map<std::string, std::string> reasons{};  // why bad_hosts failed, one phrase each, for people
  std::set<std::string> unsearched{};            // hosts that could not be searched for processes of the job
  std::set<std::string> never_back{};  // bad_hosts without a cool-down, because processes of the job are left there
};

// The state with which a later planner continues where this one stopped.
struct GenerationState {
  int counted = 0;                          // generations that count against JobSpec::max_restarts
  int wanted = 0;                           // ranks that the job should have
  std::vector<model::FailedHost> failed{};  // hosts that are left out
  std::string last_failed{};                // the host that ended the last generation; empty if no rank did
  int in_a_row = 0;                         // generations in a row that last_failed has ended
};

struct NextGeneration {
  model::Placement placement;         // that of the last generation if its hosts stay
  model::PlacementRequest request{};  // makes the same placement; set only if hosts changed
  std::vector<std::string> added{};   // names of hosts that were not in the last generation
  std::vector<std::string> lost{};    // names of hosts that are no longer in it
  bool is_counted = false;            // the failure counts against JobSpec::max_restarts
};

class GenerationPlanner {
 public:
  // `first` is the placement of the job's first generation. Hosts of `job` without a rank in it become spares, before
  // those of the policy. `counted` generations of the job were counted before, by an earlier launcherd.
  GenerationPlanner(const model::JobSpec& job, const model::Placement& first, int counted = 0);

  // Call it once for each generation that has ended. FAILED_PRECONDITION: the job cannot go on; the message is one
  // sentence with the next step. RESOURCE_EXHAUSTED: the same, but with more hosts the job could go on. After an error
  // the planner must not be used again, except for failed() and next_return().
  base::Result<NextGeneration> next(const GenerationEnd& end);

  // Leaves hosts out that were not up when the job started. Spares take their places. Without spares the job gets fewer
  // ranks, unless `keeps_size`. Call it before the first next(). RESOURCE_EXHAUSTED: too few slots are up.
  base::Result<NextGeneration> start_without(const GenerationEnd& end, bool keeps_size);

  // Says what time it is. Hosts that are left out and may be used again become spares. Call it before offer() and
  // next().
  void set_time(base::WallTime now);
  // Replaces the spares by the hosts of a pool that are free now, the best first. The slots of a host that is in the
  // job already come on top of those that it has. Hosts that are left out are ignored.
  void offer(std::vector<model::HostSpec> hosts);
  // Changes the number of ranks from the next generation on.
  void resize(int ranks) { wanted_ = ranks; }
  int wanted() const { return wanted_; }
  // The number of ranks of the newest generation.
  int size() const { return last_.size; }
  // Hosts that may take the place of others.
  const std::vector<model::HostSpec>& spares() const { return spares_; }
  // The hosts that are left out, in the order of their failures. It may be called after an error of next().
  const std::vector<model::FailedHost>& failed() const { return failed_; }
  // The first time at which a host that is left out may be used again; nullopt if none ever may.
  std::optional<base::WallTime> next_return() const;

  GenerationState state() const { return {counted_, wanted_, failed_, last_failed_, in_a_row_}; }
  // Call it before the first next(). `placement`, given to the constructor, is that of the newest generation.
  void restore(const GenerationState& state);

  // The number of generations that count against JobSpec::max_restarts.
  int counted() const { return counted_; }

 private:
  bool is_member(const std::string& name) const;
  bool is_left_out(const std::string& name) const;
  void leave_out(const std::string& name, const GenerationEnd& end);
  bool has_substitute(const std::string& name) const;
  void note_failure(const std::string& host);
  void replace(const std::string& name);
  void fill(int wanted);
  void trim(int wanted);
  int slots() const;
  base::Result<NextGeneration> place(const std::vector<model::HostSpec>& before, const std::vector<std::string>& bad,
                                     bool may_have_fewer);

  // Not const, because a caller tries a plan on a copy and keeps the copy if the plan works.
  model::FailurePolicy policy_;
  int max_restarts_;
  std::optional<base::Duration> cooldown_;  // how long a failed host is left out; nullopt means for ever
  base::Duration lease_;
  model::PlacementRequest request_;       // without hosts
  int wanted_;                            // ranks that the job should have
  int usual_slots_;                       // slots of the first host; spares that name none have as many
  bool is_of_pool_ = false;               // offer() was called, so spares are exact numbers of free slots
  std::vector<model::HostSpec> members_;  // in the order of the ranks; each has its number of slots
  std::vector<model::HostSpec> spares_;
  model::Placement last_;                  // the placement of the last generation
  std::string last_failed_;                // the host that ended the last generation; empty if no rank did
  int in_a_row_ = 0;                       // generations in a row that last_failed_ has ended
  std::vector<model::FailedHost> failed_;  // hosts that are left out
  std::vector<model::HostSpec> resting_;   // the same hosts with the slots that the job may use, unless a pool has them
  base::WallTime now_{};
  int counted_;
};

}  // namespace muster::launcherd::run
