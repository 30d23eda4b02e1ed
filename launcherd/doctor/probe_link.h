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

  // `stream` is as the bootstrap returned it: behind the marker, with the join already written.
  ProbeLink(base::Loop& loop, base::UniqueFd stream);
  ~ProbeLink();

  // Sends one command at a time. Calls `done` once, from the loop, with the reply or an error.
  // Errors: DEADLINE_EXCEEDED. UNAVAILABLE if the agent has ended. INVALID_ARGUMENT if the reply is malformed.
  // RESOURCE_EXHAUSTED if the command is too long. After an error the link cannot be used. `done` may destroy it.
  void ask(const v1::ProbeCommand& command, base::Duration timeout, Done done);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::launcherd::doctor
