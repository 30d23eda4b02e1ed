// Reads and writes whole files, and makes directories that only their owner may enter.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::base {

// At most `limit` bytes; a larger file is RESOURCE_EXHAUSTED (nothing is cut silently). Works on /proc files.
Result<std::string> read_file(const std::string& path, std::size_t limit = 16u << 20);

// To a temporary name beside `path`, then renamed over it: readers see the old or the new content, never half.
Status write_file_atomically(const std::string& path, std::string_view content, unsigned mode = 0600);

// The same, and on its disk when this returns: after a crash of the machine there is the old or the new content.
// Blocks as long as the disk takes.
Status write_file_durably(const std::string& path, std::string_view content, unsigned mode = 0600);

// Makes `path` (0700, ours) or checks that it is just that: a real directory, not a link, of our uid, closed to others.
// Parents must exist.
Status make_private_directory(const std::string& path);

// The effective uid's home directory: $HOME if absolute, else an error (no NSS look-up: the agent is static).
Result<std::string> home_directory();

}  // namespace muster::base
