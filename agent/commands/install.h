// Installs the agent on a host. The launcher sends the agent's binary under a temporary name and runs it. The agent
// then checks its own SHA-256 and renames itself to its final name.
#pragma once

#include <string>

#include "base/status.h"

namespace muster::agent::inline commands {

// Checks that the SHA-256 of the running program (/proc/self/exe) is `sha256_hex`, and renames it to `path`.
// DATA_LOSS: the hash differs; then the file is removed.
base::Status install_self(const std::string& sha256_hex, const std::string& path);

}  // namespace muster::agent::commands
