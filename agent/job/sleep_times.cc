#include "agent/job/sleep_times.h"

#include "agent/stacks/target_memory.h"

namespace muster::agent::inline job {

std::optional<std::uint64_t> sleep_mark_of(pid_t pid) {
  return ProcessMemory(pid, base::UniqueFd()).sleep_mark(pid);
}

void SleepTimes::seen(int rank, pid_t pid, const std::string& state, base::MonotonicTime now) {
  const auto mark = mark_(pid);
  const auto known = sleeps_.find(rank);
  if (!mark) {
    if (known != sleeps_.end()) sleeps_.erase(known);
    return;
  }
  if (known != sleeps_.end() && known->second.pid == pid && known->second.state == state &&
      known->second.mark == *mark) {
    known->second.last = now;
    return;
  }
  sleeps_[rank] = {.pid = pid, .state = state, .mark = *mark, .since = now, .last = now};
}

std::optional<std::chrono::milliseconds> SleepTimes::of(int rank, pid_t pid) const {
  const auto found = sleeps_.find(rank);
  if (found == sleeps_.end() || found->second.pid != pid || found->second.last == found->second.since) {
    return std::nullopt;
  }
  return std::chrono::duration_cast<std::chrono::milliseconds>(found->second.last - found->second.since);
}

void SleepTimes::keep_only(const std::map<int, pid_t>& ranks) {
  std::erase_if(sleeps_, [&](const auto& sleep) { return !ranks.contains(sleep.first); });
}

}  // namespace muster::agent::job
