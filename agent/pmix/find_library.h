// Finds out whether this host has libpmix, without loading it, because the agent is static. Reads files.
#pragma once

#include <string>
#include <string_view>

namespace muster::agent::pmix {

inline constexpr std::string_view kHowToInstall =
    "install the package libpmix2 (Debian, Ubuntu) or pmix (Fedora, RHEL, SUSE)";

// Searches where this host's dynamic linker does: first `library_path` (LD_LIBRARY_PATH), then the libraries that
// `cache` lists. Also returns true if no cache can be read, because then the answer is unknown.
bool has_libpmix(std::string_view library_path, const std::string& cache = "/etc/ld.so.cache");

}  // namespace muster::agent::pmix
