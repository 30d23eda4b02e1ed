// Helpers that were killed and may not have ended: one that hangs in the driver ends when that lets it, if ever. Reaps
// each when it has ended, and nobody waits for it. (Before Linux 5.3: when the next one is killed.)
//
// Owned by the agent; loop thread only. The destructor waits kEndPatience at most, for all of them together.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <list>
#include <vector>

#include "base/loop.h"
#include "base/unique_fd.h"

namespace muster::agent::inline gpus {

inline constexpr std::chrono::milliseconds kEndPatience{200};

class KilledHelpers {
 public:
  explicit KilledHelpers(base::Loop& loop) : loop_(loop) {}
  ~KilledHelpers();
  KilledHelpers(const KilledHelpers&) = delete;
  KilledHelpers& operator=(const KilledHelpers&) = delete;

  // A child of this process that nobody else reaps.
  void take(pid_t killed);
  // Looks anew.
  bool are_all_gone();
  // Those that have not been reaped: children of this process that are of no job.
  std::vector<pid_t> pids() const;

 private:
  struct Killed {
    pid_t pid = 0;
    base::UniqueFd end;  // its pidfd
    base::Timer watch;
  };
  void reap();

  base::Loop& loop_;
  std::list<Killed> killed_;
};

// Reaps a killed child if it ends by then.
void await_end_blocking(pid_t killed, std::chrono::milliseconds patience);

}  // namespace muster::agent::gpus
