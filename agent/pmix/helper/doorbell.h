// Controls which connections reach libpmix. libpmix accepts connections by itself and believes whatever user id a
// client claims.
//
// The agent listens, checks who connects, and hands the sockets over. libpmix listens, too, at a loopback port that
// no rank learns.
// This program defines accept() itself. The dynamic linker searches the program before the C library, so libpmix
// calls ours. A connection to libpmix's port only rings: our accept() closes it. libpmix gets the next socket that
// the agent has handed over, or EAGAIN. So a stranger's connection leads nowhere.
//
// There is one doorbell for the process, because accept() is one for the process.
// Thread: any.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::pmix {

// Rings once without a socket. `port` is that of libpmix's own listener on 127.0.0.1. UNIMPLEMENTED: this libpmix did
// not call our accept() within `patience`.
base::Status check_doorbell(std::uint16_t port, std::chrono::milliseconds patience);

// Makes libpmix serve `rank`, a connected socket.
base::Status hand_over(base::UniqueFd rank, std::uint16_t port);

}  // namespace muster::agent::pmix
