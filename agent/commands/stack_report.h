// `muster-agent --stacks RANK:PID…`: what the agent runs to learn where its ranks are. In a process of its own, because
// a process that hangs in the kernel can hold up whoever traces it; the agent ends it when its time is over.
//
// Writes to stdout for each process, the ranks' own first and what they have started after them, a frame
// (proto/frame.h) with a v1::ProcessStack.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace muster::agent::inline commands {

base::Status report_stacks(const std::vector<std::string>& arguments);

}  // namespace muster::agent::commands
