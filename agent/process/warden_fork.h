// Making the warden: session directory and lease, the fork, into new namespaces if wanted, and its first message. In a
// process that has one thread: the agent before its first other one, or a child of the nursery.
#pragma once

#include "agent/process/message_socket.h"
#include "agent/process/warden.h"
#include "agent/process/warden_process.h"

namespace muster::agent::inline process {

struct WardenFork {
  MessageSocket socket;
  WardenReady ready;
};

// The agent that a warden belongs to, and ends with.
struct WardenOwner {
  pid_t pid = 0;
  base::UniqueFd pidfd;  // invalid on old kernels
};

// What of a warden the agent holds.
struct WardenParts {
  SessionDir session;
  LeasePage lease;
  WardenFork fork;
};

// Makes session directory and lease and forks, at the best level that `options` allows and this host has. Blocks until
// the warden serves or has refused; then nothing is left of it. The calling process must be a subreaper: for a moment
// it has the warden as its child, later that goes to whoever is the next one above.
base::Result<WardenParts> make_warden(const WardenOptions& options, const WardenOwner& owner);

}  // namespace muster::agent::process
