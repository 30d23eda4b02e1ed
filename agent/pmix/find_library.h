// Whether this host has libpmix, without loading it: the agent is static. Reads files.
#pragma once

#include <string>
#include <string_view>

namespace muster::agent::pmix {

inline constexpr std::string_view kHowToInstall =
    "install the package libpmix2 (Debian, Ubuntu) or pmix (Fedora, RHEL, SUSE)";

// Where the dynamic linker of this host would find it: `library_path` (LD_LIBRARY_PATH), then what `cache` lists. True
// also where there is no cache that can be read: then nobody knows.
bool has_libpmix(std::string_view library_path, const std::string& cache = "/etc/ld.so.cache");

}  // namespace muster::agent::pmix
