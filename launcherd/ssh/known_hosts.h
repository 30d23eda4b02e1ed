// Handles files of known host keys where libssh does not. It adds keys, and finds lines that libssh ignores.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::launcherd::inline ssh {

// True if a line begins with a marker (@cert-authority, @revoked). libssh 0.10 does not know markers. Pure.
bool has_marker_lines(std::string_view known_hosts);

// Appends `entry` ("name keytype key") in one write, under a mutex between threads. Creates the directory (0700) if
// needed. With `hash` it writes the name as OpenSSH's HashKnownHosts does.
base::Status add_known_host(const std::string& path, std::string_view entry, bool hash);

// Returns "|1|salt|hash". Public for tests.
std::string hashed_host_name(std::string_view name, std::string_view salt);

}  // namespace muster::launcherd::ssh
