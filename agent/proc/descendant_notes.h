// Writes into the session directory which descendants of this process have left its session. If agent and warden are
// killed at the same instant, a sweep finds such processes by these notes. This works even if a process has emptied
// its environment.
// The notes are needed only if neither a cgroup nor a PID namespace holds the descendants.
//
// Owner: the warden process.
// Thread: single-threaded.
//
// The kernel does not report forks of descendants to an ordinary process. So this class polls: half a second after
// the first rank, then less often, at last every 10 s. A process that starts after the last poll is not noted.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/proc/session_notes.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::inline proc {

class DescendantNotes {
 public:
  static base::Result<DescendantNotes> create(const std::string& session_path);

  // Call this when a rank has started, so that the next poll comes soon.
  void begin(base::MonotonicTime now);
  base::MonotonicTime next_poll() const { return next_; }
  // Polls if it is time. This costs some microseconds for each thread below this process.
  void poll(base::MonotonicTime now);

 private:
  explicit DescendantNotes(base::UniqueFd note) : note_(std::move(note)) {}

  base::UniqueFd note_;
  std::map<pid_t, std::uint64_t> noted_;  // start times, by pid
  std::chrono::milliseconds pause_{};
  base::MonotonicTime next_ = base::MonotonicTime::max();
};

// Returns the descendants that the session's warden has noted. Their start times are exact.
std::vector<KnownRank> noted_descendants(const std::string& session_path);

}  // namespace muster::agent::proc
