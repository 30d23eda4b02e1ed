// The user's settings for agents that connect to launcherd by themselves (see dial_in.h). A plain value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/net.h"

namespace muster::launcherd::inline enrol {

struct AcceptAgents {
  std::optional<base::IpAddress> address;  // an address of this host; nullopt means all its addresses
  std::uint16_t port = 0;                  // 0 means any free port
  std::string join_file;                   // absolute path; empty means "join" in the state directory
};

}  // namespace muster::launcherd::enrol
