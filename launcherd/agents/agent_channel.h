// The launcher's hold on one started agent: watches its bootstrap stream for the end of the agent, and carries control
// and output over it when the agent cannot dial back.
//
// Owned by the job runner; loop thread only; callbacks on the loop thread, none after destruction. Destroying it closes
// the stream, which the agent takes as the end of its launcher.
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
  std::string reason;  // why not dial: the agent's words
};

class AgentChannel {
 public:
  struct Events {
    // What the agent chose. Over ssh the two sockets are the launcher's ends of control and output.
    std::function<void(LinkChoice, base::UniqueFd control, base::UniqueFd output)> on_link;
    // The agent or the connection to it is gone, or what it wrote makes no sense.
    std::function<void(base::Status)> on_gone;
  };

  // `stream` as the bootstrap gave it: after the marker, with the join already written.
  AgentChannel(base::Loop& loop, base::UniqueFd stream, Events events);
  ~AgentChannel();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// "MUSTER-LINK dial" or "MUSTER-LINK ssh <reason>".
base::Result<LinkChoice> parse_link_line(std::string_view line);

}  // namespace muster::launcherd::agents
