// Whether, and by which address, this host can reach the launcher.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/net.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline link {

struct Dialled {
  base::IpAddress address;
  base::UniqueFd fd;  // connected, non-blocking
};

// Connects to `port` on all addresses at once, and anew each second to those that are silent; the first answer wins.
// Ends early when `cancel_fd` (-1: none) becomes readable (CANCELLED). The error names every address and why.
base::Result<Dialled> dial_first(const std::vector<base::IpAddress>& addresses, std::uint16_t port,
                                 base::MonotonicTime deadline, int cancel_fd);

// The literals among `texts`, each once.
std::vector<base::IpAddress> addresses_of(const google::protobuf::RepeatedPtrField<std::string>& texts);

// Where the launcher may be reached: first the address that sshd saw, then those that the launcher has.
std::vector<base::IpAddress> launcher_addresses(const v1::AgentJoin& join, const v1::Hello& hello);

}  // namespace muster::agent::link
