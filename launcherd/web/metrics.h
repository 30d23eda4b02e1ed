// Formats the reply of /metrics in Prometheus' text format (version 0.0.4). Pure.
#pragma once

#include <string>

#include "launcherd/service/job_counters.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd::inline web {

// `jobs` holds jobs that have started and not ended.
std::string format_metrics(const v1::Capabilities& launcher, const v1::ListHostsResponse& hosts,
                           const v1::ListJobsResponse& jobs, const JobCounters& counters);

}  // namespace muster::launcherd::web
