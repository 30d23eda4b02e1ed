// Files of known host keys, as far as libssh does not handle them: adding a key, and noticing lines that it ignores.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::launcherd::inline ssh {

// Whether a line begins with a marker (@cert-authority, @revoked): libssh 0.10 does not know them. Pure.
bool has_marker_lines(std::string_view known_hosts);

// Appends `entry` ("name keytype key") in one write, under a lock between threads; makes the directory (0700) if
// needed. `hash`: the name is written as OpenSSH's HashKnownHosts does.
base::Status add_known_host(const std::string& path, std::string_view entry, bool hash);

// "|1|salt|hash", for tests.
std::string hashed_host_name(std::string_view name, std::string_view salt);

}  // namespace muster::launcherd::ssh
