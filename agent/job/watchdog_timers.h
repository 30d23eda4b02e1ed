// The timers of torch's watchdog on one host: which scope of which process must be over by when. Pure.
//
// The rules are those of torch's FileTimerServer. A process has one timer for each scope, and a new request for the
// scope replaces it. If several timers of a process have expired, the signal of the earliest one that has a signal
// counts. All timers of the process are then removed, even if none has a signal.
//
// Owner: RankWatchdog.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/job/watchdog_request.h"

namespace muster::agent::inline job {

struct ExpiredTimer {
  std::int64_t pid = 0;
  std::string scope;
  int signal = 0;

  bool operator==(const ExpiredTimer&) const = default;
};

class WatchdogTimers {
 public:
  // Programs of the job choose their scopes, so their number is limited.
  static constexpr std::size_t kMaxTimers = 4096;

  // Sets or releases a timer. Returns false if there is no room for another one.
  bool apply(const WatchdogRequest& request);
  // Returns for each process whose timers have expired by `now` the one that decides. Forgets all timers of these
  // processes. Processes whose expired timers have no signal are left out.
  std::vector<ExpiredTimer> take_expired(double now);
  // Returns the time at which the next timer expires. nullopt if there is none.
  std::optional<double> next() const;
  void forget(std::int64_t pid);
  std::size_t size() const { return timers_.size(); }

 private:
  struct Timer {
    double expires = 0;
    int signal = 0;
  };
  std::map<std::pair<std::int64_t, std::string>, Timer> timers_;  // by pid and scope
};

}  // namespace muster::agent::job
