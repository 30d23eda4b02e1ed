// The key by which an agent and its launcher authenticate each other on the control channel.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/tls_keys.h"

namespace muster::proto {

// Derives the key from the agent's token (AgentJoin.token). `job` is the job, or the name of launcherd's state. The
// identity is public, so it does not reveal the token.
inline base::TlsKey control_key(std::string_view job, std::string_view token) {
  const std::string name = base::derive_secret(token, "control identity");
  return {fmt::format("muster://{}/control/{}", job, std::string_view(name).substr(0, 32)),
          base::derive_secret(token, "control key")};
}

}  // namespace muster::proto
