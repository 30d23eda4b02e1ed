// Warns if the start of a rank takes long. The warden starts ranks one after the other, and it sleeps in the kernel
// while a file system does not answer.
//
// Owner: the job's session.
// Thread: the loop thread only.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/launch/spawn_request.h"
#include "base/loop.h"

namespace muster::agent::inline job {

// A normal start takes milliseconds.
inline constexpr std::chrono::seconds kSlowSpawn{5};

class SpawnWatch {
 public:
  // `warn` gets one sentence for the user.
  SpawnWatch(base::Loop& loop, std::function<void(const std::string&)> warn,
             std::chrono::milliseconds limit = kSlowSpawn)
      : loop_(loop), warn_(std::move(warn)), limit_(limit) {}

  // Call it before the requests go to the warden.
  void expect(const std::vector<SpawnRequest>& requests);
  // Call this when the rank has started or failed to start. Returns true if all expected ranks have been tried.
  bool tried(int rank);

 private:
  void watch();
  void warn_of_first() const;

  base::Loop& loop_;
  const std::function<void(const std::string&)> warn_;
  const std::chrono::milliseconds limit_;
  std::map<int, std::string> open_;  // the ranks that must still start, with command and folder
  base::Timer timer_;                // runs while ranks must start
};

}  // namespace muster::agent::job
