// How ranks get into libpmix, which accepts connections by itself and believes whatever user id they claim.
//
// The agent listens and checks who connects; it hands the sockets on. libpmix listens too, at a loopback port that
// nobody is told. This program's own accept() stands before the C library's (the dynamic linker looks in the program
// first): whoever connects to libpmix's port only rings, is closed, and what libpmix gets is the next socket that
// the agent has handed over, or EAGAIN. So a connection of a stranger leads nowhere.
//
// One for the process, as accept() is. Any thread.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::pmix {

// `port`: of libpmix's own listener on 127.0.0.1. Rings once without a socket. UNIMPLEMENTED: this libpmix does not
// come to our accept() within the time.
base::Status check_doorbell(std::uint16_t port, std::chrono::milliseconds patience);

// libpmix will serve `rank`, a connected socket.
base::Status hand_over(base::UniqueFd rank, std::uint16_t port);

}  // namespace muster::agent::pmix
