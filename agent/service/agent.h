// The agent of one job on one host: takes the launcher's orders, runs the warden and the output sender, and ends the
// ranks when the launcher is gone.
//
// Built by main after the warden was forked; runs the loop on the calling thread until the job is over here.
#pragma once

#include <memory>
#include <optional>

#include "agent/process/warden.h"
#include "agent/service/dial.h"
#include "base/env.h"
#include "base/status.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent {

// gRPC's, the output sender's and some to spare.
inline constexpr int kAgentThreads = 12;

// How this agent talks to its launcher.
struct AgentLink {
  std::optional<Dialled> dialled;  // the first output connection; empty: over stdin and stdout
};

class Agent {
 public:
  // `login_environment`: what sshd gave, the ground of the ranks' environment. stdin and stdout are the bootstrap.
  Agent(v1::AgentJoin join, v1::Hello hello, base::Environment login_environment, Warden warden, AgentLink link);
  ~Agent();

  // Until Leave, or until the launcher is lost and everything is killed. The process's exit status.
  int run();

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace muster::agent
