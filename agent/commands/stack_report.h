// `muster-agent --stacks [--native] [--memory=PID:FD]… RANK:PID…`: reads where ranks are in their code. The agent runs
// it as a process of its own, because a process that hangs in the kernel can block its tracer. The agent ends it after
// a time limit.
//
// Python stacks are read without stopping the process. Native functions need that, so they are read only for processes
// without Python stacks, and with --native for all. --memory gives the /proc/PID/mem of a process as an open file.
//
// Output: for each process a frame (proto/frame.h) with a v1::ProcessStack, on stdout. For each rank, its own process
// comes first, then the processes that it has started.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace muster::agent::inline commands {

base::Status report_stacks(const std::vector<std::string>& arguments);

}  // namespace muster::agent::commands
