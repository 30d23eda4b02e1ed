// For how long the main threads of ranks have slept without a break, as far as looks at them have seen. The kernel
// counts how often a thread has been switched; a thread whose count has not changed has slept meanwhile.
//
// Thread: single-threaded. Plain values.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"

namespace muster::agent::inline job {

// Returns a number that stays the same as long as the process's main thread sleeps. nullopt if it runs, or has ended.
std::optional<std::uint64_t> sleep_mark_of(pid_t pid);

class SleepTimes {
 public:
  explicit SleepTimes(std::function<std::optional<std::uint64_t>(pid_t)> mark = sleep_mark_of)
      : mark_(std::move(mark)) {}

  // Notes that the rank's process was in this state just now.
  void seen(int rank, pid_t pid, const std::string& state, base::MonotonicTime now);
  // Returns how long the process has been in the state in which it was last seen. nullopt if it was seen to run, or was
  // seen in this state only once.
  std::optional<std::chrono::milliseconds> of(int rank, pid_t pid) const;
  // Forgets all other ranks.
  void keep_only(const std::map<int, pid_t>& ranks);

 private:
  struct Sleep {
    pid_t pid = 0;
    std::string state;
    std::uint64_t mark = 0;
    base::MonotonicTime since;
    base::MonotonicTime last;
  };

  const std::function<std::optional<std::uint64_t>(pid_t)> mark_;
  std::map<int, Sleep> sleeps_;
};

}  // namespace muster::agent::job
