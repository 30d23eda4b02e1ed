// Finds out whether this host can reach the launcher, and by which address.
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

// Connects to `port` on all addresses at once. Dials silent addresses again each second. The first answer wins.
// CANCELLED: `cancel_fd` became readable; -1 means that no descriptor can cancel. Other errors name every address and
// the reason.
base::Result<Dialled> dial_first(const std::vector<base::IpAddress>& addresses, std::uint16_t port,
                                 base::MonotonicTime deadline, int cancel_fd);

// Parses those `texts` that are IP addresses; each address comes once.
std::vector<base::IpAddress> addresses_of(const google::protobuf::RepeatedPtrField<std::string>& texts);

// Returns the addresses by which this host may reach the launcher: first the one that sshd saw, then those that the
// launcher named.
std::vector<base::IpAddress> launcher_addresses(const v1::AgentJoin& join, const v1::Hello& hello);

}  // namespace muster::agent::link
