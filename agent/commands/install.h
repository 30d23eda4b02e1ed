// First contact: the launcher has sent this program under a temporary name; it takes its final name only if its bytes
// are the ones that were sent.
#pragma once

#include <string>

#include "base/status.h"

namespace muster::agent::inline commands {

// Checks that the SHA-256 of the running program is `sha256_hex` and renames it (/proc/self/exe) to `path`. DATA_LOSS:
// the hash differs; the file is removed then.
base::Status install_self(const std::string& sha256_hex, const std::string& path);

}  // namespace muster::agent::commands
