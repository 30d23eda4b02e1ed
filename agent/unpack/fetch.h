// Fetches the agent from a seed, another host that has it (seed.h).
#pragma once

#include <chrono>
#include <string>

#include "agent/unpack/hashed_file.h"

namespace muster::agent::inline unpack {

struct FetchLimits {
  std::chrono::milliseconds connect{2000};  // until the connection is there
  std::chrono::milliseconds silence{3000};  // without a byte
  std::chrono::milliseconds whole{20'000};  // for everything
};

// `address` is an address literal. Writes what arrives to `file`, but does not check its hash.
Problem fetch_agent(const std::string& address, int port, const std::string& token, HashedFile& file,
                    const FetchLimits& limits = {});

}  // namespace muster::agent::unpack
