// Serves the agent's file to other hosts, so that the launcher need not send it to each of them. One process of this
// host does it, for a limited time, and ends with the agent that it stands beside.
//
// A peer connects by TCP and sends the token, 64 characters. It then receives the file, and the connection ends.
// Whoever sends anything else gets nothing. The file is no secret: the token keeps strangers from using this host's
// network.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "agent/unpack/hashed_file.h"

namespace muster::agent::inline unpack {

inline constexpr std::size_t kTokenSize = 64;

// Opens a listening socket for all addresses of this host, IPv6 and IPv4. `fd` is non-blocking and close-on-exec.
Problem listen_for_peers(int& fd, int& port);

// Serves `file` to peers with `token`. Returns when `time` is over, or when the process of `agent` (a pidfd, or -1)
// ends. `listener` is that of listen_for_peers(). Slow peers do not delay others.
void serve_peers(int listener, int file, std::string_view token, std::chrono::milliseconds time, int agent);

// Starts a process that calls serve_peers() for the file at `path`. It has none of this process's descriptors, and it
// is no child of this process. It ends when this process does, even after an exec. `port` is where it listens.
Problem start_seed(const std::string& path, const std::string& token, int& port);

}  // namespace muster::agent::unpack
