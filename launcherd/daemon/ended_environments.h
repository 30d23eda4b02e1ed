// The environments of jobs that have ended, for Rerun. They are in memory only, because the disk must not keep secrets
// of ended jobs (docs/adr/0011, docs/adr/0056). If there are too many, the oldest is dropped.
//
// Owner: JobManager.
// Thread: one. A plain value without I/O.
#pragma once

#include <cstddef>
#include <deque>
#include <string>

#include "base/clock.h"
#include "base/ids.h"

namespace muster::launcherd::inline daemon {

class EndedEnvironments {
 public:
  static constexpr std::size_t kMostJobs = 256;
  static constexpr std::size_t kMostBytes = std::size_t{32} << 20;

  // Keeps the bytes of a StoredEnvironment until `forget_at`, when the job's own record is removed. Drops what is out
  // of date at `now`. Does not keep bytes that are longer than kMostBytes, or already out of date.
  void add(const base::JobId& id, std::string environment, base::WallTime now, base::WallTime forget_at);
  // nullptr if it was never added, or dropped. Valid until the next add().
  const std::string* find(const base::JobId& id) const;
  std::size_t size() const { return kept_.size(); }

 private:
  struct Kept {
    base::JobId id;
    std::string environment;
    base::WallTime forget_at;
  };
  void drop_oldest();

  std::deque<Kept> kept_;  // the oldest first
  std::size_t bytes_ = 0;
};

}  // namespace muster::launcherd::daemon
