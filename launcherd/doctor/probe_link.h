// ProbeLink is the launcher's end of one probe (proto/muster/v1/probe.proto). It sends a command and receives its
// reply.
//
// Thread: the loop thread only. Owner: the destructor closes the stream, which ends the agent. No callback runs
// afterwards.
#pragma once

#include <functional>
#include <memory>

#include "base/loop.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "proto/muster/v1/probe.pb.h"

namespace muster::launcherd::inline doctor {

class ProbeLink {
 public:
  using Done = std::function<void(base::Result<v1::ProbeAnswer>)>;

  // `stream` is as the bootstrap returned it: after the marker, with the join frame already written.
  ProbeLink(base::Loop& loop, base::UniqueFd stream);
  ~ProbeLink();

  // Sends one command at a time. Calls `done` once, from the loop, with the reply or an error. `done` may destroy the
  // link. After an error the link cannot be used.
  // DEADLINE_EXCEEDED: no reply in time. UNAVAILABLE: the agent has ended. INVALID_ARGUMENT: the reply is malformed.
  // RESOURCE_EXHAUSTED: the command is too long.
  void ask(const v1::ProbeCommand& command, base::Duration timeout, Done done);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::launcherd::doctor
