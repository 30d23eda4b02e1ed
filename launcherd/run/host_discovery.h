// Runs the host discovery script of an elastic job again and again while the job lives, and reports other hosts.
//
// The script runs on a thread of its own, one run at a time, with a pause between two runs. A list of hosts counts when
// it came twice in a row (launcherd/elastic/host_list_filter.h). A run that fails, hangs, or names no host changes
// nothing: it leads to one warning for each kind of trouble, until the script has worked for a while.
//
// Owner: hvdrun's run of a job.
// Thread: loop thread. Callbacks come from the loop.
// Destruction: kills the script and its process group, and joins the thread. No callback follows.
//
//   HostDiscovery discovery(loop, {.script = "./hosts.sh"}, hosts, {.on_hosts = …, .on_warning = …});
//   if (const Status started = discovery.start(); !started.ok()) …
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/loop.h"
#include "base/status.h"
#include "launcherd/bootstrap/waiter.h"
#include "launcherd/elastic/host_list_filter.h"
#include "model/host_spec.h"

namespace muster::launcherd::inline run {

struct HostDiscoveryOptions {
  std::string script;                            // a shell command
  std::optional<int> slots_per_host{};           // slots of hosts without a number; nullopt means 1
  std::chrono::milliseconds pause{1'000};        // horovod 0.28.1's DISCOVER_HOSTS_FREQUENCY_SECS
  std::chrono::milliseconds time_limit{60'000};  // of one run, which is killed then
};

class HostDiscovery {
 public:
  struct Events {
    // The script names these hosts now, all with slots.
    std::function<void(std::vector<model::HostSpec> hosts)> on_hosts;
    std::function<void(const std::string& line)> on_warning;
  };

  // `first` is the script's list with which the job starts.
  HostDiscovery(base::Loop& loop, HostDiscoveryOptions options, const std::vector<model::HostSpec>& first,
                Events events);
  ~HostDiscovery();
  HostDiscovery(const HostDiscovery&) = delete;
  HostDiscovery& operator=(const HostDiscovery&) = delete;

  // RESOURCE_EXHAUSTED: no thread or descriptor is available.
  base::Status start();

 private:
  using Answer = base::Result<std::vector<model::HostSpec>>;

  void run();
  void take(Answer answer);
  void warn(const base::Status& trouble);

  base::Loop& loop_;
  const HostDiscoveryOptions options_;
  const Events events_;
  HostListFilter filter_;
  std::map<base::Code, int> warned_;  // the kinds of trouble, and how many runs since then have worked in a row
  CancelSource cancel_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // answers that come later than our end find it gone
  std::thread thread_;
};

// Sets the slots of hosts that have none.
void fill_slots(std::optional<int> slots_per_host, std::vector<model::HostSpec>& hosts);

}  // namespace muster::launcherd::run
