// Ends the process that owns it, unless the process sets a later time before. The kernel sends SIGKILL at the set
// time, even if the process is stopped or all its threads hang.
// The warden cannot do this from inside a PID namespace, because the kernel takes no signal from there to the
// outside.
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
