#include "launcherd/run/host_discovery.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/thread.h"
#include "launcherd/hosts/discovery.h"
#include "model/rank_env.h"

namespace muster::launcherd::inline run {
namespace {

// After so many good runs in a row, the same trouble leads to a warning again.
constexpr int kGoodRuns = 30;

std::vector<ElasticHost> elastic_hosts(const std::vector<model::HostSpec>& hosts) {
  std::vector<ElasticHost> listed;
  for (const model::HostSpec& host : hosts) {
    listed.push_back({model::horovod_hostname(host.name), host.slots.value_or(1)});
  }
  return listed;
}

}  // namespace

void fill_slots(std::optional<int> slots_per_host, std::vector<model::HostSpec>& hosts) {
  for (model::HostSpec& host : hosts) {
    if (!host.slots) host.slots = slots_per_host.value_or(1);
  }
}

HostDiscovery::HostDiscovery(base::Loop& loop, HostDiscoveryOptions options, const std::vector<model::HostSpec>& first,
                             Events events)
    : loop_(loop), options_(std::move(options)), events_(std::move(events)) {
  filter_.take(elastic_hosts(first));
}

HostDiscovery::~HostDiscovery() {
  cancel_.cancel();
  if (thread_.joinable()) thread_.join();
}

base::Status HostDiscovery::start() {
  MUSTER_RETURN_IF_ERROR(cancel_.status());
  MUSTER_ASSIGN_OR_RETURN(thread_, base::start_thread([this] { run(); }));
  return base::ok_status();
}

// On the thread of its own.
void HostDiscovery::run() {
  const std::weak_ptr<bool> alive = alive_;
  const Waiter between{.cancel_fd = cancel_.fd(), .deadline = base::MonotonicTime::max()};
  while (between.pause(options_.pause).ok()) {
    const Waiter waiter{.cancel_fd = cancel_.fd(), .deadline = base::monotonic_now() + options_.time_limit};
    Answer answer = discover_hosts(options_.script, waiter);
    if (!between.check().ok()) return;
    loop_.post([this, alive, answer = std::move(answer)]() mutable {
      if (!alive.expired()) take(std::move(answer));
    });
  }
}

void HostDiscovery::take(Answer answer) {
  if (!answer.ok()) return warn(answer.status());
  for (auto& [code, good_runs] : warned_) ++good_runs;
  std::erase_if(warned_, [](const auto& entry) { return entry.second >= kGoodRuns; });
  fill_slots(options_.slots_per_host, *answer);
  if (filter_.take(elastic_hosts(*answer))) events_.on_hosts(*std::move(answer));
}

void HostDiscovery::warn(const base::Status& trouble) {
  const bool is_new = !warned_.contains(trouble.code());
  for (auto& [code, good_runs] : warned_) good_runs = 0;
  warned_[trouble.code()] = 0;
  if (is_new) events_.on_warning(trouble.message() + "; the last list of hosts stays in use");
}

}  // namespace muster::launcherd::run
