// The first step after the launcher has sent this program under a temporary name. The program takes its final name
// only if its bytes are those that were sent.
#pragma once

#include <string>

#include "base/status.h"

namespace muster::agent::inline commands {

// Checks that the SHA-256 of the running program (/proc/self/exe) is `sha256_hex`, and renames it to `path`.
// DATA_LOSS: the hash differs; then the file is removed.
base::Status install_self(const std::string& sha256_hex, const std::string& path);

}  // namespace muster::agent::commands
