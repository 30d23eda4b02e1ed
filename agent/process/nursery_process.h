// The nursery itself: the loop of the process that Nursery::start forks, and its children, the midwives. What agent and
// nursery say to each other. Single-threaded, all signals blocked; leaves by _exit and never returns.
#pragma once

#include <optional>
#include <string>

#include "agent/process/message_socket.h"
#include "agent/process/warden.h"
#include "agent/process/warden_fork.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::inline process {

// Until `socket` or its owner ends.
[[noreturn]] void run_nursery(base::UniqueFd socket, WardenOwner owner);

// What the agent asks for; the descriptor that comes with it is for the answer.
std::string encode(const WardenOptions& options);
base::Result<WardenOptions> decode_warden_options(const std::string& payload);

// The answer: a warden's parts, or why there is none.
SocketMessage encode_birth(base::Result<WardenParts> made);
base::Result<WardenParts> decode_birth(SocketMessage message);

}  // namespace muster::agent::process
