// Finds hosts by a program of the user: horovodrun's --host-discovery-script. Each call runs the program once.
// Thread: any. The call blocks until the program has ended.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "launcherd/bootstrap/waiter.h"
#include "model/host_spec.h"

namespace muster::launcherd::inline hosts {

// `script` is a shell command, as for horovodrun; its stdin is empty. Each line of its output is a host or host:slots,
// as in a hostfile. The output counts when the script has ended. Then its process group is killed, also if the waiter's
// time ends first. The script dies with the calling thread.
// Errors in the output contain line and column. Errors of the script contain how it ended and what it wrote to stderr.
//   NOT_FOUND         the output names no host
//   INVALID_ARGUMENT  a line of the output is wrong
//   other codes       as for ask_program()
base::Result<std::vector<model::HostSpec>> discover_hosts(const std::string& script, const Waiter& waiter);

}  // namespace muster::launcherd::hosts
