#include "agent/process/dead_man_timer.h"

#include <algorithm>
#include <csignal>

namespace muster::agent::inline process {

DeadManTimer::DeadManTimer() {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  timer_t timer{};
  if (::timer_create(CLOCK_MONOTONIC, &event, &timer) == 0) timer_ = timer;
}

DeadManTimer::~DeadManTimer() {
  if (timer_) ::timer_delete(*timer_);
}

void DeadManTimer::set(std::optional<base::MonotonicTime> at) const {
  if (!timer_) return;
  itimerspec spec{};  // zero means disarmed
  if (at) {
    using std::chrono::nanoseconds;
    const auto since_boot = std::max(std::chrono::duration_cast<nanoseconds>(at->time_since_epoch()), nanoseconds(1));
    const auto seconds = std::chrono::floor<std::chrono::seconds>(since_boot);
    spec.it_value.tv_sec = seconds.count();
    spec.it_value.tv_nsec = (since_boot - seconds).count();
  }
  ::timer_settime(*timer_, TIMER_ABSTIME, &spec, nullptr);
}

}  // namespace muster::agent::process
