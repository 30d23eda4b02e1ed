// Ends the process that has it when nobody puts it off: the kernel sends SIGKILL at the time that was set, also to a
// process that is stopped, or whose threads all hang. For what a guard beside the process cannot reach: the kernel
// takes no signal from inside a PID namespace to the outside.
//
// Of the process that made it: not inherited by a fork, gone with an exec. Any thread. Where the kernel gives no timer
// (the user's limit of pending signals), set() does nothing.
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

  void set(std::optional<base::MonotonicTime> at) const;  // nullopt: never

 private:
  std::optional<timer_t> timer_;
};

}  // namespace muster::agent::process
