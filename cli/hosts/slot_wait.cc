#include "cli/hosts/slot_wait.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "cli/hosts/held_signals.h"
#include "launcherd/bootstrap/waiter.h"
#include "launcherd/hosts/discovery.h"

namespace muster::cli::inline hosts {
namespace {

using Hosts = std::vector<model::HostSpec>;

int count_slots(const Hosts& hosts) {
  int slots = 0;
  for (const model::HostSpec& host : hosts) slots += host.slots.value_or(1);
  return slots;
}

// The text is Horovod's.
base::Status too_few_slots(int needed) {
  return base::error(base::Code::kDeadlineExceeded,
                     "Timed out waiting for minimum number of slots to become available. Please check that you have "
                     "enough resources to run at least {} Horovod processes.",
                     needed);
}

// Decides after each run of the script whether the job can start, and reports what it still lacks.
class SlotWait {
 public:
  SlotWait(JobRequest& request, std::function<void(const std::string& line)> report)
      : request_(request),
        report_(std::move(report)),
        needed_(std::max(request.job.placement.np, request.job.live->min_ranks)) {}

  int needed() const { return needed_; }

  // Returns whether there are enough slots. An error ends the wait.
  base::Result<bool> take(base::Result<Hosts> hosts) {
    const bool is_first = std::exchange(is_first_, false);
    const bool is_empty = hosts.status().code() == base::Code::kNotFound;
    if (!hosts.ok() && !is_empty) {
      if (is_first || hosts.status().code() == base::Code::kCancelled) return hosts.status();
      if (trouble_.insert(hosts.status().code()).second) report_(hosts.status().message());
      return false;
    }
    const int slots = is_empty ? 0 : count_slots(*hosts);
    if (slots >= needed_) {
      request_.elastic.discovered = *std::move(hosts);
      return true;
    }
    if (std::exchange(slots_, slots) != slots) {
      report_(fmt::format("waiting for {} slots: {} lists {}; the wait ends after {} s (--elastic-timeout)", needed_,
                          request_.elastic.discovery_script, slots, request_.job.live->elastic_timeout.count()));
    }
    return false;
  }

 private:
  JobRequest& request_;
  const std::function<void(const std::string& line)> report_;
  const int needed_;
  bool is_first_ = true;
  std::optional<int> slots_;
  std::set<base::Code> trouble_;  // kinds that were reported
};

}  // namespace

base::Result<Hosts> run_discovery(const ElasticOptions& elastic, int cancel_fd, base::MonotonicTime deadline) {
  const launcherd::Waiter waiter{.cancel_fd = cancel_fd, .deadline = deadline};
  MUSTER_ASSIGN_OR_RETURN(Hosts hosts, launcherd::discover_hosts(elastic.discovery_script, waiter));
  for (model::HostSpec& host : hosts) {
    if (!host.slots && elastic.slots_per_host) host.slots = static_cast<int>(*elastic.slots_per_host);
  }
  return hosts;
}

base::Status wait_for_slots(JobRequest& request, const std::function<void(const std::string& line)>& report,
                            std::chrono::milliseconds pause) {
  if (!request.job.live || request.elastic.discovery_script.empty() || !request.hostfile.empty()) {
    return base::ok_status();
  }
  // Hold signals, because the script runs in a session of its own: Ctrl-C would end only this process.
  MUSTER_ASSIGN_OR_RETURN(const HeldSignals signals, HeldSignals::open());
  const base::MonotonicTime end = base::monotonic_now() + request.job.live->elastic_timeout;
  SlotWait wait(request, report);
  for (;;) {
    const base::MonotonicTime limit = base::monotonic_now() + kDiscoveryLimit;
    MUSTER_ASSIGN_OR_RETURN(const bool is_enough, wait.take(run_discovery(request.elastic, signals.fd(), limit)));
    if (is_enough) return base::ok_status();
    if (base::monotonic_now() + pause >= end) return too_few_slots(wait.needed());
    MUSTER_RETURN_IF_ERROR(
        launcherd::Waiter({.cancel_fd = signals.fd(), .deadline = base::MonotonicTime::max()}).pause(pause));
  }
}

}  // namespace muster::cli::hosts
