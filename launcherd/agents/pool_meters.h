// Measures the output of the pool's hosts and jobs. Private to this folder.
//
// Owner: HostPool::Core.
// Thread: loop thread only; the output hub's thread raises the counters of the meters (output_meter.h).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "launcherd/agents/output_meter.h"
#include "launcherd/agents/pool_roster.h"

namespace muster::launcherd::inline agents {

class PoolMeters {
 public:
  // Returns the meter of the job's output. The pool counts as long as the meter lives.
  std::shared_ptr<OutputMeter> of_job(const std::string& job, base::MonotonicTime now) {
    std::weak_ptr<OutputMeter>& known = jobs_[job];
    auto meter = known.lock();  // an earlier attempt of the job that is still ending may hold a meter
    if (meter == nullptr) {
      meter = std::make_shared<OutputMeter>();
      meter->sample(now);
      known = meter;
    }
    return meter;
  }

  // nullopt if the job has no meter.
  std::optional<std::int64_t> rate_of_job(const std::string& job) const {
    const auto found = jobs_.find(job);
    const auto meter = found == jobs_.end() ? nullptr : found->second.lock();
    if (meter == nullptr) return std::nullopt;
    return meter->rate.per_second();
  }

  void sample(const PoolRoster& roster, base::MonotonicTime now) {
    for (const auto& [key, host] : roster) host->output->sample(now);
    std::erase_if(jobs_, [](const auto& entry) { return entry.second.expired(); });
    for (const auto& [job, weak] : jobs_) {
      if (const auto meter = weak.lock()) meter->sample(now);
    }
  }

 private:
  std::map<std::string, std::weak_ptr<OutputMeter>> jobs_;
};

}  // namespace muster::launcherd::agents
