// Runs `muster-agent --cleanup` on all hosts at the same time. One report a host, in the order of the hosts; a host
// that could not be asked has `unreachable` set.
//
// Loop thread only. `bootstrap` is borrowed and outlives the object. Destroying it before `on_done` drops the hosts;
// nothing is called afterwards.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/status.h"
#include "launcherd/bootstrap/bootstrap.h"
#include "model/job_spec.h"
#include "proto/muster/v1/cleanup.pb.h"

namespace muster::launcherd::inline cleanup {

struct CleanupPlan {
  std::vector<model::HostSpec> hosts;  // each once, at least one
  std::string job;                     // a job id, or with dry_run its beginning; empty: all jobs
  bool dry_run = false;
  std::string session_root;  // MUSTER_TMPDIR; empty: the hosts' own
};

struct CleanupEvents {
  std::function<void(const std::vector<std::string>& waiting)>
      on_progress;  // hosts that have not answered; may be empty
  std::function<void(std::vector<v1::CleanupReport>)> on_done;
};

class HostCleanups {
 public:
  HostCleanups(base::Loop& loop, Bootstrap* bootstrap, CleanupPlan plan, CleanupEvents events);
  ~HostCleanups();

  void start();

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

// What an agent wrote. The error is one sentence without the host's name. Pure.
base::Result<v1::CleanupReport> parse_cleanup_report(const CommandResult& result);

}  // namespace muster::launcherd::cleanup
