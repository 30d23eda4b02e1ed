// Making the warden: the fork, into new namespaces if wanted, and its first message. Before the agent's first thread.
#pragma once

#include "agent/process/message_socket.h"
#include "agent/process/warden.h"
#include "agent/process/warden_process.h"

namespace muster::agent {

struct WardenFork {
  MessageSocket socket;
  WardenReady ready;
};

// Tries the levels that `options` allows, best first. In the forked child, and only there, `session` and `lease` are
// moved from: the copies that fork made are the warden's own.
base::Result<WardenFork> fork_warden(const WardenOptions& options, SessionDir& session, LeasePage& lease);

}  // namespace muster::agent
