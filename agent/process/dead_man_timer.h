// Kills the process that owns it at a set time, unless the process sets a later time first. The kernel sends SIGKILL,
// even if the process is stopped or all its threads hang.
// A warden inside a PID namespace cannot kill its agent in this way, because no signal leaves the namespace.
//
// Owner: the process that made it. A fork does not inherit it, and an exec removes it.
// Thread: any.
// Errors: if the kernel gives no timer (the user's limit of pending signals), set() does nothing.
#pragma once

#include <ctime>
#include <optional>

#include "base/clock.h"

namespace muster::agent::inline process {

class DeadManTimer {
 public:
  DeadManTimer();
  ~DeadManTimer();
  DeadManTimer(const DeadManTimer&) = delete;
  DeadManTimer& operator=(const DeadManTimer&) = delete;

  void set(std::optional<base::MonotonicTime> at) const;  // nullopt means never

 private:
  std::optional<timer_t> timer_;
};

}  // namespace muster::agent::process
