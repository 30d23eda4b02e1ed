// `muster-agent --looks [--libraries] [--nccl] [--session=DIR] [--memory=PID:FD]… RANK:PID…`: reads what ranks do at
// this moment. The agent runs it as a process of its own, because a process that hangs in the kernel can block its
// reader. The agent ends it after a time limit. No process is stopped.
//
// With --libraries it also asks PyTorch's flight recorder of each rank, and with --nccl the NCCL of one of them
// (agent/evidence/).
//
// Output: frames (proto/frame.h) with a v1::EvidenceAnswer each, on stdout. There is one for each rank whose process
// lives, and one for the findings of NCCL. The evidence of a rank describes
// the process that does the rank's work (agent/proc/working_process.h). These fields have another meaning than in an
// answer to the launcher, because one look cannot compare:
//   moving   the main thread called or left functions while it was read
//   cpu_ms   CPU time of the rank's processes since they began
//   awaits   connections to torch's store (agent/evidence/store_connection.h)
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace muster::agent::inline commands {

base::Status report_looks(const std::vector<std::string>& arguments);

}  // namespace muster::agent::commands
