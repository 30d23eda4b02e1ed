// The agent of one host: its link to the launcher, and the launcher's jobs on this host.
//
// An agent of hvdrun has one job, which its join message names. It ends together with that job. If the job may start
// again, hvdrun's agent is warm too: each generation is then one job. It ends with its log-in connection. It also ends
// when hvdrun has sent nothing for the length of the lease, with or without a job (agent/job/agent_lease.h).
// An agent of launcherd is warm: jobs come and go (agent/job/warm_jobs.h). It ends after it has had no job for its
// idle timeout. Without a job, it also ends after its launcherd has been gone for the length of the lease.
//
// Owner: main, which builds it after it has forked the warden or the nursery.
// Thread: run() runs the loop on the calling thread and returns when the agent's work is over.
#pragma once

#include <memory>
#include <optional>
#include <variant>

#include "agent/gpus/gpus.h"
#include "agent/link/launcher_route.h"
#include "agent/process/nursery.h"
#include "agent/process/warden.h"
#include "base/env.h"
#include "base/status.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

// The number of threads of the whole agent process: the output sender's, those of helpers, and some to spare.
inline constexpr int kAgentThreads = 12;

// How this agent reaches its launcher.
struct AgentLink {
  // null: stdin and stdout carry everything.
  std::shared_ptr<LauncherRoute> route;
  base::UniqueFd output;  // the first output connection, if it is open already
};

// An agent of one job holds that job's warden. A warm agent holds the nursery that makes its wardens.
using WardenSource = std::variant<Warden, Nursery>;

class Agent {
 public:
  // `login_environment` is the environment that sshd gave; the ranks' environment is built on it.
  // stdin and stdout are the bootstrap channel. Only an agent of launcherd that has dialled it is detached from
  // them.
  // `nvidia` is what main found out about the GPUs.
  Agent(v1::AgentJoin join, v1::Hello hello, base::Environment login_environment, WardenSource wardens, AgentLink link,
        NvidiaSurvey nvidia);
  ~Agent();

  // Runs until the launcher sends Leave, or until the launcher is lost and everything is killed. Returns the exit
  // status of the process.
  int run();

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace muster::agent::job
