#include "agent/job/agent_lease.h"

#include <algorithm>

namespace muster::agent::inline job {

void AgentLease::contact(base::MonotonicTime now) {
  const auto until = lease_.renew(now);
  if (!until) return;
  lease_end_ = until;
  arm();
}

void AgentLease::follow(const Jobs& jobs, base::MonotonicTime now) {
  if (jobs.is_suspended != lease_.is_suspended()) {
    lease_end_ = lease_.suspend(jobs.is_suspended, now);
  } else if (jobs.is_ending == jobs_end_.has_value()) {
    return;
  }
  if (!jobs.is_ending) jobs_end_.reset();
  if (jobs.is_ending && !jobs_end_) jobs_end_ = now + kEndBound;
  arm();
}

void AgentLease::ending(base::MonotonicTime now) {
  if (end_) return;
  end_ = now + kEndBound;
  arm();
}

void AgentLease::arm() const {
  if (end_) return kill_at_(end_);
  std::optional<base::MonotonicTime> at = jobs_end_;
  if (lease_end_) at = std::min(at.value_or(base::MonotonicTime::max()), *lease_end_ + kHangBound);
  kill_at_(at);
}

}  // namespace muster::agent::job
