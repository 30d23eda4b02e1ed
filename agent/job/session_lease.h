// The lease of a job on one host: how long its ranks may run without a message from the launcher. It also knows
// whether the launcher has suspended the ranks. Pure; the session sends the lease to the warden.
//
// Owner: the job's session.
#pragma once

#include <optional>

#include "base/clock.h"

namespace muster::agent::inline job {

class SessionLease {
 public:
  // `stops_in_suspend` is true if the lease does not run while the ranks are suspended.
  SessionLease(base::Duration length, bool stops_in_suspend) : length_(length), stops_in_suspend_(stops_in_suspend) {}

  // Call this at each message of the launcher. Returns the new end of the lease if the warden must receive it.
  // nullopt if the warden received an end a moment ago, or if the lease does not run.
  std::optional<base::MonotonicTime> renew(base::MonotonicTime now);
  // Suspends or continues the ranks. Returns the new end of the lease for the warden. nullopt if the lease no longer
  // runs.
  std::optional<base::MonotonicTime> suspend(bool is_on, base::MonotonicTime now);

  bool is_suspended() const { return is_suspended_; }
  // True if the launcher has sent nothing for the length of the lease.
  bool is_over(base::MonotonicTime now) const { return is_running() && now - last_heard_ > length_; }

 private:
  bool is_running() const { return !is_suspended_ || !stops_in_suspend_; }

  const base::Duration length_;
  const bool stops_in_suspend_;
  bool is_suspended_ = false;
  base::MonotonicTime last_heard_{};
  base::MonotonicTime last_sent_{};  // when renew() last returned an end for the warden
};

}  // namespace muster::agent::job
