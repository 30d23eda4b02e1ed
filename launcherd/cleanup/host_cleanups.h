// HostCleanups runs `muster-agent --cleanup` on all hosts at the same time. It returns one report per host, in the
// order of the hosts. If a host could not be asked, its report has `unreachable` set.
//
// Thread: the loop thread only.
// Owner: `bootstrap` is borrowed and must outlive the object. If the object is destroyed before `on_done`, it drops
// the hosts, and no callback runs afterwards.
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
  std::vector<model::HostSpec> hosts;  // each host once; at least one host
  std::string job;                     // a job id; with dry_run also its first letters; empty means all jobs
  bool dry_run = false;
  std::string session_root;  // MUSTER_TMPDIR; empty means each host's own value
};

struct CleanupEvents {
  std::function<void(const std::vector<std::string>& waiting)>
      on_progress;  // gets the hosts that have not answered; may be empty
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

// Parses the output of an agent. The error is one sentence without the host's name. Pure.
base::Result<v1::CleanupReport> parse_cleanup_report(const CommandResult& result);

}  // namespace muster::launcherd::cleanup
