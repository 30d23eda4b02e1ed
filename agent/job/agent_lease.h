// The lease of an agent that hvdrun keeps between the generations of a job, and the time limit of its end. Each
// generation's session has a lease of its own. This one runs all the time, also while no session is there.
// A function that kills the process at a set time is given to it. So the agent also ends if its loop hangs.
//
// Owner: the agent.
// Thread: the loop thread only.
//
// Example:
//   const DeadManTimer timer;
//   AgentLease lease(length, [&timer](auto at) { timer.set(at); });
//   lease.contact(now);                                        // at each message of the launcher
//   if (lease.is_over(now)) { lease.ending(now); end_all(); }  // several times a second
#pragma once

#include <functional>
#include <optional>

#include "agent/job/session_lease.h"
#include "base/clock.h"

namespace muster::agent::inline job {

// The sum of all time limits of an agent whose job is over. In this time the agent kills and audits everything twice,
// and the warden leaves.
inline constexpr std::chrono::seconds kEndBound{20};

class AgentLease {
 public:
  // An agent that has not begun to end this long after its lease hangs. Wardens act 5.5 s after the lease, and the
  // agent's own timer acts after them (WardenOptions).
  static constexpr std::chrono::seconds kHangBound{6};

  // The state of the agent's jobs, all together.
  struct Jobs {
    bool is_suspended = false;  // one is suspended by a Ctrl-Z, and so is the launcher
    bool is_ending = false;     // the launcher has left one
  };

  // `kill_at` kills this process at the given time. nullopt means never.
  AgentLease(base::Duration length, std::function<void(std::optional<base::MonotonicTime>)> kill_at)
      : lease_(length, true), kill_at_(std::move(kill_at)) {}

  // Call this at each message of the launcher.
  void contact(base::MonotonicTime now);
  // Call this whenever a job may have changed. The lease does not run while a job is suspended. A job that has begun
  // to end must be gone within kEndBound.
  void follow(const Jobs& jobs, base::MonotonicTime now);
  // Call this when the agent must end. It is killed after kEndBound, whatever follows.
  void ending(base::MonotonicTime now);

  // True if the launcher has sent nothing for the length of the lease.
  bool is_over(base::MonotonicTime now) const { return lease_.is_over(now); }

 private:
  void arm() const;

  SessionLease lease_;
  const std::function<void(std::optional<base::MonotonicTime>)> kill_at_;
  std::optional<base::MonotonicTime> lease_end_;  // nullopt while the lease does not run
  std::optional<base::MonotonicTime> jobs_end_;   // set while a job ends
  std::optional<base::MonotonicTime> end_;        // set by ending()
};

}  // namespace muster::agent::job
