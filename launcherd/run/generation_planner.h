// Decides on which hosts the ranks of a job start again after a generation has failed. A generation is one start of all
// ranks of the job.
//
// Rules:
// - A host that did not start or was lost is never used again in the job.
// - A host whose ranks ended two generations in a row counts as failed too, if another host can do its work.
// - A spare takes the place of a failed host. So the ranks on all other hosts keep their numbers.
// - With OnFailure::kShrink the job goes on with fewer ranks if spares are missing. It takes back what it lost as soon
//   as a later spare has the slots.
// - Only failures of ranks without progress count against JobSpec::max_restarts. Changes of hosts are free, because
// each
//   uses up a host.
//
// Owner: RestartingJob. A plain value without I/O.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "model/failure_policy.h"
#include "model/job_spec.h"
#include "model/placement.h"

namespace muster::launcherd::inline run {

// How a generation ended.
struct GenerationEnd {
  std::vector<std::string> bad_hosts{};  // names of hosts that did not start, were lost, or may keep processes
  std::string failed_host{};             // the host of the rank that failed by itself; empty if no rank did
  bool has_progress = false;             // the job got further than before (FailurePolicy::progress_text)
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
  // sentence with the next step.
  base::Result<NextGeneration> next(const GenerationEnd& end);

  // The number of generations that count against JobSpec::max_restarts.
  int counted() const { return counted_; }

 private:
  bool is_member(const std::string& name) const;
  bool has_substitute(const std::string& name) const;
  void note_failure(const std::string& host);
  void replace(const std::string& name);
  void fill(int wanted);
  int slots() const;
  base::Result<NextGeneration> place(const std::vector<std::string>& before, const std::vector<std::string>& bad);

  const model::FailurePolicy policy_;
  const int max_restarts_;
  const model::PlacementRequest request_;  // without hosts
  const int wanted_;                       // ranks of the first generation
  const int usual_slots_;                  // slots of the first host; spares that name none have as many
  std::vector<model::HostSpec> members_;   // in the order of the ranks; each has its number of slots
  std::vector<model::HostSpec> spares_;
  model::Placement last_;    // the placement of the last generation
  std::string last_failed_;  // the host that ended the last generation; empty if no rank did
  int in_a_row_ = 0;         // generations in a row that last_failed_ has ended
  int counted_;
};

}  // namespace muster::launcherd::run
