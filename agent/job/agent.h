// The agent of one host: its link to the launcher, and the jobs that the launcher has here. hvdrun's agent has one job,
// named in its join, and lives as long as that; launcherd's is warm: jobs come and go (agent/job/warm_jobs.h), and
// it lives until it has been without one for long, or launcherd has.
//
// Built by main after the warden or the nursery was forked; runs the loop on the calling thread until it is over here.
#pragma once

#include <memory>
#include <optional>
#include <variant>

#include "agent/gpus/gpus.h"
#include "agent/link/dial.h"
#include "agent/process/nursery.h"
#include "agent/process/warden.h"
#include "base/env.h"
#include "base/status.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

// gRPC's, the output sender's and some to spare.
inline constexpr int kAgentThreads = 12;

// How this agent talks to its launcher.
struct AgentLink {
  std::optional<Dialled> dialled;  // the first output connection; empty: over stdin and stdout
};

// The warden of the only job, or, of a warm agent, where wardens come from.
using WardenSource = std::variant<Warden, Nursery>;

class Agent {
 public:
  // `login_environment`: what sshd gave, the ground of the ranks' environment. stdin and stdout are the bootstrap, but
  // of a warm agent that has dialled: that one is detached from it. `nvidia`: what main has seen.
  Agent(v1::AgentJoin join, v1::Hello hello, base::Environment login_environment, WardenSource wardens, AgentLink link,
        NvidiaLook nvidia);
  ~Agent();

  // Until Leave, or until the launcher is lost and everything is killed. The process's exit status. An agent of one job
  // has then done all that it is there for: its process may end without the destructor, which takes gRPC's time.
  int run();

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace muster::agent::job
