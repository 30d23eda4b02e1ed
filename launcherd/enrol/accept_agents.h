// Where agents come to a launcherd by themselves (dial_in.h), as its user wants it. A plain value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/net.h"

namespace muster::launcherd::inline enrol {

struct AcceptAgents {
  std::optional<base::IpAddress> address;  // of this host; without: all of its addresses
  std::uint16_t port = 0;                  // 0: any
  std::string join_file;                   // absolute; empty: "join" in the state directory
};

}  // namespace muster::launcherd::enrol
