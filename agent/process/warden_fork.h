// Makes the warden: session directory and lease, the fork (into new namespaces if wanted), and the warden's first
// message.
//
// Thread: call it only in a process with one thread. That is the agent before it starts a thread, or a child of the
// nursery.
#pragma once

#include "agent/process/message_socket.h"
#include "agent/process/warden.h"
#include "agent/process/warden_process.h"

namespace muster::agent::inline process {

struct WardenFork {
  MessageSocket socket;
  WardenReady ready;
};

// The agent to which a warden belongs. The warden ends with it.
struct WardenOwner {
  pid_t pid = 0;
  base::UniqueFd pidfd;  // invalid on old kernels
};

// The parts of a warden that the agent holds.
struct WardenParts {
  SessionDir session;
  LeasePage lease;
  WardenFork fork;
};

// Makes session directory and lease and forks, at the best level that `options` allows and this host has. Blocks
// until the warden serves or has refused. If it refused, nothing of it is left.
// The calling process must be a subreaper. If it ends, the next subreaper above it becomes the warden's parent.
base::Result<WardenParts> make_warden(const WardenOptions& options, const WardenOwner& owner);

}  // namespace muster::agent::process
