#include "launcherd/daemon/job_meter.h"

#include <chrono>

namespace muster::launcherd::inline daemon {
namespace {

double seconds_between(base::WallTime from, base::WallTime to) {
  return std::chrono::duration<double>(to - from).count();
}

void count_end(model::JobState state, JobCounters& counters) {
  if (state == model::JobState::kSucceeded) ++counters.jobs_succeeded;
  if (state == model::JobState::kFailed) ++counters.jobs_failed;
  if (state == model::JobState::kKilled) ++counters.jobs_killed;
  if (state == model::JobState::kLost) ++counters.jobs_lost;
}

}  // namespace

void JobMeter::add(const base::JobId& job, base::WallTime submitted, std::optional<base::WallTime> started,
                   model::JobState state, bool is_array) {
  Times times{.submitted = submitted, .is_array = is_array};
  if (state != model::JobState::kQueued) times.starting = started;
  if (state == model::JobState::kRunning || state == model::JobState::kStopping) times.running = started;
  jobs_.insert_or_assign(job, times);
}

void JobMeter::add_element(const base::JobId& element, const base::JobId& array) {
  const auto found = jobs_.find(array);
  if (found == jobs_.end()) return;
  found->second.is_array = true;
  jobs_.insert_or_assign(element, Times{.submitted = found->second.submitted});
}

void JobMeter::step(const base::JobId& job, model::JobState to, base::WallTime now, JobCounters& counters) {
  if (model::is_final(to)) count_end(to, counters);
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  Times& times = found->second;
  if (times.is_array) {
    if (model::is_final(to)) jobs_.erase(found);
  } else if (to == model::JobState::kStarting && !times.starting) {
    times.starting = now;
    counters.queue_wait.add(seconds_between(times.submitted, now));
  } else if (to == model::JobState::kQueued && !times.running) {
    times.starting.reset();  // it could not start: it waits again
  } else if (to == model::JobState::kRunning && !times.running) {
    times.running = now;
    if (times.starting) counters.start_time.add(seconds_between(*times.starting, now));
  } else if (model::is_final(to)) {
    if (times.running) counters.run_time.add(seconds_between(*times.running, now));
    jobs_.erase(found);
  }
}

}  // namespace muster::launcherd::daemon
