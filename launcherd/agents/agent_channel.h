// The launcher's log-in connection to one started agent. It notices the end of the agent. If the agent cannot dial
// back, it also carries control and output.
//
// Owner: OwnAgents or the pool (HostPool::Core), one for each agent.
// Thread: loop thread only, callbacks too. No callback comes after destruction.
// Destruction: closes the stream. The agent reads EOF, which means that its launcher is gone.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/loop.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::launcherd::inline agents {

struct LinkChoice {
  bool over_ssh = false;
  std::string reason;  // why the agent does not dial, in the agent's words
};

class AgentChannel {
 public:
  struct Events {
    // Called when the agent has chosen its link. Over ssh, the two sockets are the launcher's ends of control and
    // output.
    std::function<void(LinkChoice, base::UniqueFd control, base::UniqueFd output)> on_link;
    // Called if the agent or its connection is gone, or if the agent has not sent a valid link line.
    std::function<void(base::Status)> on_gone;
  };

  // `stream` comes from the bootstrap. The marker has been read from it, and the join has been written to it.
  AgentChannel(base::Loop& loop, base::UniqueFd stream, Events events);
  ~AgentChannel();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Parses "MUSTER-LINK dial" or "MUSTER-LINK ssh <reason>".
base::Result<LinkChoice> parse_link_line(std::string_view line);

}  // namespace muster::launcherd::agents
