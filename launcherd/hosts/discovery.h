// The hosts that a program of the user's names: horovodrun's --host-discovery-script, asked once. Blocks until the
// program has ended; any thread.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "launcherd/bootstrap/waiter.h"
#include "model/host_spec.h"

namespace muster::launcherd::inline hosts {

// `script` is a shell's command, as horovodrun takes it; its stdin is empty. Each line that it prints is a host or
// host:slots, as in a hostfile; mistakes are named with line and column. The error says how the program ended, and what
// it wrote to stderr. With its time it ends, too, and all that it started in its own session's group.
base::Result<std::vector<model::HostSpec>> discover_hosts(const std::string& script, const Waiter& waiter);

}  // namespace muster::launcherd::hosts
