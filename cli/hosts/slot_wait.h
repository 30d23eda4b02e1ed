// Waits until the host discovery script of an elastic job lists enough slots to start it, as horovodrun does.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "cli/options/job_request.h"
#include "model/host_spec.h"

namespace muster::cli::inline hosts {

// Runs the script once a second until its hosts have as many slots as -np and --min-np ask for. The hosts are then in
// request.elastic.discovered. `report` gets a line whenever the number of slots changes, and for each kind of trouble
// with the script after its first run. Blocks; Ctrl-C ends the wait. Does nothing for other jobs.
// DEADLINE_EXCEEDED: --elastic-timeout is over. Other errors are those of the script's first run.
base::Status wait_for_slots(JobRequest& request, const std::function<void(const std::string& line)>& report,
                            std::chrono::milliseconds pause = std::chrono::seconds(1));

// Runs the script once. Hosts without slots get those of --slots-per-host.
base::Result<std::vector<model::HostSpec>> run_discovery(const ElasticOptions& elastic, int cancel_fd,
                                                         base::MonotonicTime deadline);

inline constexpr std::chrono::seconds kDiscoveryLimit{60};  // for one run of a program that lists hosts

}  // namespace muster::cli::hosts
