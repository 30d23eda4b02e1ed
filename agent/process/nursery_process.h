// The nursery process itself: the loop that Nursery::start forks, its children (the makers), and the messages
// between agent and nursery.
//
// Thread: single-threaded, with all signals blocked. It leaves by _exit and never returns.
#pragma once

#include <optional>
#include <string>

#include "agent/process/message_socket.h"
#include "agent/process/warden.h"
#include "agent/process/warden_fork.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::inline process {

// Runs until the other end of `socket` closes or the owner ends.
[[noreturn]] void run_nursery(base::UniqueFd socket, WardenOwner owner);

// Encodes the agent's request. The descriptor that comes with the request is for the answer.
std::string encode(const WardenOptions& options);
base::Result<WardenOptions> decode_warden_options(const std::string& payload);

// Encodes the answer: the parts of a warden, or the reason why none could be made.
SocketMessage encode_warden_parts(base::Result<WardenParts> made);
base::Result<WardenParts> decode_warden_parts(SocketMessage message);

}  // namespace muster::agent::process
