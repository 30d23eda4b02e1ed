// JobMeter measures for /metrics how long jobs wait, start and run, and counts how they end. Pure.
// Thread: one at a time.
#pragma once

#include <map>
#include <optional>

#include "base/clock.h"
#include "base/ids.h"
#include "launcherd/service/job_counters.h"
#include "model/job_state.h"

namespace muster::launcherd::inline daemon {

class JobMeter {
 public:
  // Call it once for each job. `started` is when it last got slots. A job that an earlier launcherd has begun is
  // measured from there on.
  void add(const base::JobId& job, base::WallTime submitted, std::optional<base::WallTime> started,
           model::JobState state, bool is_array = false);
  // Call it for each element of an array that starts. It has waited since the array was submitted. The array itself is
  // no longer measured.
  void add_element(const base::JobId& element, const base::JobId& array);
  // Call it for each step of the job. A final step forgets the job.
  void step(const base::JobId& job, model::JobState to, base::WallTime now, JobCounters& counters);

 private:
  struct Times {
    base::WallTime submitted{};
    std::optional<base::WallTime> starting{};
    std::optional<base::WallTime> running{};  // a later generation does not change it
    bool is_array = false;
  };

  std::map<base::JobId, Times> jobs_;
};

}  // namespace muster::launcherd::daemon
