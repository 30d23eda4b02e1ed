// The launcher's end of one probe (proto/muster/v1/probe.proto): a command out, its answer back.
//
// Loop thread only. Destroying it closes the stream, which ends the agent; nothing is called afterwards.
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

  // `stream` as the bootstrap gave it: after the marker, with the join already written.
  ProbeLink(base::Loop& loop, base::UniqueFd stream);
  ~ProbeLink();

  // One command at a time. `done` is called once, from the loop: with the answer, or with DEADLINE_EXCEEDED,
  // UNAVAILABLE (the agent has ended), INVALID_ARGUMENT (what came is no answer) or RESOURCE_EXHAUSTED (the command is
  // too long for one). After an error the link is of no
  // use. It may be destroyed from within `done`.
  void ask(const v1::ProbeCommand& command, base::Duration timeout, Done done);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::launcherd::doctor
