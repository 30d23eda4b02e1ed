// Finds hosts by a program of the user: horovodrun's --host-discovery-script. The program runs once.
// Thread: any. The call blocks until the program has ended.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "launcherd/bootstrap/waiter.h"
#include "model/host_spec.h"

namespace muster::launcherd::inline hosts {

// `script` is a shell command, as for horovodrun; its stdin is empty. Each line of its output is a host or host:slots,
// as in a hostfile. Errors in the output contain line and column. Errors of the program contain how it ended and what
// it wrote to stderr. When the waiter's time ends, the script and its process group are killed.
base::Result<std::vector<model::HostSpec>> discover_hosts(const std::string& script, const Waiter& waiter);

}  // namespace muster::launcherd::hosts
