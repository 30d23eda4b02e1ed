// Notes in the session directory which descendants of this process have left its session, so that a sweep finds them
// when agent and warden were killed in the same instant: such a process may have emptied its environment, too. Only
// where neither a cgroup nor a PID namespace holds them. Owner: the warden process; single-threaded.
//
// Nothing tells an ordinary process of its descendants' forks. So they are looked at, soon at first and then less
// often: half a second after the first rank, at last every 10 s. What was born after the last look is not noted.
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

  // A rank has started: the next look comes soon.
  void begin(base::MonotonicTime now);
  base::MonotonicTime next_look() const { return next_; }
  // Looks when it is time; costs some microseconds for each thread below this process.
  void look(base::MonotonicTime now);

 private:
  explicit DescendantNotes(base::UniqueFd note) : note_(std::move(note)) {}

  base::UniqueFd note_;
  std::map<pid_t, std::uint64_t> noted_;  // start times
  std::chrono::milliseconds pause_{};
  base::MonotonicTime next_ = base::MonotonicTime::max();
};

// The descendants that the session's warden has noted, with their exact start times.
std::vector<KnownRank> noted_descendants(const std::string& session_path);

}  // namespace muster::agent::proc
