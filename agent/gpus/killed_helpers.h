// Reaps helpers that were killed, each when it has ended. Nothing waits for them: a helper that hangs in the driver
// ends only when the driver lets it, if ever.
// Before Linux 5.3, a helper is reaped only when the next one is killed.
//
// Owner: the agent.
// Thread: the loop thread only. The destructor waits at most kEndPatience, for all helpers together.
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

  // Takes over a child of this process that no other code reaps.
  void take(pid_t killed);
  // Reaps first, then returns true if no killed helper is left.
  bool are_all_gone();
  // Returns the helpers that are not reaped yet. They are children of this process and of no job.
  std::vector<pid_t> pids() const;

 private:
  struct Killed {
    pid_t pid = 0;
    base::UniqueFd end;  // the helper's pidfd
    base::Timer watch;
  };
  void reap();

  base::Loop& loop_;
  std::list<Killed> killed_;
};

// Reaps a killed child if it ends within `patience`.
void await_end_blocking(pid_t killed, std::chrono::milliseconds patience);

}  // namespace muster::agent::gpus
