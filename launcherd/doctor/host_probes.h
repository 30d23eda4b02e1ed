// HostProbes collects facts about all hosts at the same time. It starts an agent on each host, as for a job. The agent
// only inspects the host and runs no rank (AgentJoin.probe). Then every other host tries to reach the first host, as
// ranks do.
//
// Thread: the loop thread only, except failed(), which any thread may call.
// Owner: `bootstrap` is borrowed and must outlive the object. If the object is destroyed before `on_done`, it drops
// the hosts, and no callback runs afterwards.
//
// Example:
//   HostProbes probes(loop, bootstrap.get(), std::move(plan), {.on_done = [&](auto findings) { … loop.stop(); }});
//   MUSTER_RETURN_IF_ERROR(probes.start());
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/loop.h"
#include "base/status.h"
#include "launcherd/bootstrap/bootstrap.h"
#include "launcherd/doctor/findings.h"
#include "model/job_spec.h"

namespace muster::launcherd::inline doctor {

struct ProbePlan {
  std::vector<model::HostSpec> hosts;  // each host once
  model::JobSpec job;                  // networks and environment, as in a job
  std::string agent_link = "auto";
  std::string contain = "auto";
  base::Environment environment{};  // the launcher's environment
  bool shape_only = false;          // true to collect only cores, GPUs and interfaces
};

struct ProbeEvents {
  std::function<void(const std::vector<std::string>& waiting)>
      on_progress;                                         // gets the hosts that have not answered; may be empty
  std::function<void(std::vector<HostFindings>)> on_done;  // in the order of the plan's hosts
};

class HostProbes {
 public:
  HostProbes(base::Loop& loop, Bootstrap* bootstrap, ProbePlan plan, ProbeEvents events);
  ~HostProbes();

  // Fails only if the launcher itself cannot work (no port).
  base::Status start();

  // Pass it to BootstrapOptions::on_failure.
  void failed(const BootstrapTarget& target, FailureKind kind);

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

}  // namespace muster::launcherd::doctor
