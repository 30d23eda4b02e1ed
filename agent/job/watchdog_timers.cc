#include "agent/job/watchdog_timers.h"

#include <algorithm>

namespace muster::agent::inline job {

bool WatchdogTimers::apply(const WatchdogRequest& request) {
  const auto key = std::make_pair(request.pid, request.scope);
  if (request.is_release()) {
    timers_.erase(key);
    return true;
  }
  if (timers_.size() >= kMaxTimers && !timers_.contains(key)) return false;
  timers_[key] = {request.expiration_time, request.signal};
  return true;
}

std::vector<ExpiredTimer> WatchdogTimers::take_expired(double now) {
  std::map<std::int64_t, std::optional<std::pair<double, ExpiredTimer>>> first;  // by pid
  for (const auto& [key, timer] : timers_) {
    if (timer.expires > now) continue;
    auto& chosen = first[key.first];
    if (timer.signal <= 0 || (chosen && chosen->first <= timer.expires)) continue;
    chosen = std::make_pair(timer.expires, ExpiredTimer{key.first, key.second, timer.signal});
  }
  std::vector<ExpiredTimer> expired;
  for (const auto& [pid, chosen] : first) {
    forget(pid);
    if (chosen) expired.push_back(chosen->second);
  }
  return expired;
}

std::optional<double> WatchdogTimers::next() const {
  const auto earliest = std::ranges::min_element(timers_, {}, [](const auto& entry) { return entry.second.expires; });
  if (earliest == timers_.end()) return std::nullopt;
  return earliest->second.expires;
}

void WatchdogTimers::forget(std::int64_t pid) {
  std::erase_if(timers_, [pid](const auto& entry) { return entry.first.first == pid; });
}

}  // namespace muster::agent::job
