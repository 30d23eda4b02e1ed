// Which waiting jobs wait for which others (--after). It answers who waits for a job, and refuses circles.
//
// Owner: JobManager.
// Thread: one thread. A plain value without I/O.
#pragma once

#include <map>
#include <set>
#include <span>
#include <vector>

#include "base/ids.h"
#include "model/job_dependency.h"

namespace muster::launcherd::inline queue {

class DependencyGraph {
 public:
  // Replaces the jobs for which `waiting` waits. An empty list removes it. Does not check for circles.
  void set(const base::JobId& waiting, std::vector<model::JobDependency> awaited);
  // Returns the jobs for which `waiting` waits; empty if there are none. Valid until the next set().
  const std::vector<model::JobDependency>& awaited_by(const base::JobId& waiting) const;
  // Returns the jobs that wait for `awaited`, by their ids.
  std::vector<base::JobId> waiting_for(const base::JobId& awaited) const;
  // Returns the jobs of a circle that would arise if `waiting` also waited for `more`: `waiting` first and last. Empty
  // if there would be none.
  std::vector<base::JobId> circle(const base::JobId& waiting, std::span<const model::JobDependency> more) const;

 private:
  std::map<base::JobId, std::vector<model::JobDependency>> awaited_;  // by the waiting job
  std::map<base::JobId, std::set<base::JobId>> waiting_;              // by the awaited job
};

}  // namespace muster::launcherd::queue
