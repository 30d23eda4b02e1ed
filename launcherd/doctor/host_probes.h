// Asks all hosts about themselves at the same time: starts an agent on each, as for a job, that looks around and runs
// nothing (AgentJoin.probe). Then each host but the first tries to reach the first one, as ranks do.
//
// Loop thread only, but for failed() which any thread may call. `bootstrap` is borrowed and outlives the object.
// Destroying it before `on_done` drops the hosts; nothing is called afterwards.
//
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
  std::vector<model::HostSpec> hosts;  // each once
  model::JobSpec job;                  // networks and environment as a job's
  std::string agent_link = "auto";
  std::string contain = "auto";
  base::Environment environment{};  // of the launcher
  bool shape_only = false;          // cores, GPUs and interfaces, and nothing else
};

struct ProbeEvents {
  std::function<void(const std::vector<std::string>& waiting)>
      on_progress;                                         // hosts that have not answered; may be empty
  std::function<void(std::vector<HostFindings>)> on_done;  // in the order of the plan
};

class HostProbes {
 public:
  HostProbes(base::Loop& loop, Bootstrap* bootstrap, ProbePlan plan, ProbeEvents events);
  ~HostProbes();

  // Fails only when the launcher itself cannot work (no port).
  base::Status start();

  // For BootstrapOptions::on_failure.
  void failed(const BootstrapTarget& target, FailureKind kind);

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

}  // namespace muster::launcherd::doctor
