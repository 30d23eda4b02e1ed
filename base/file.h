// Reads and writes whole files, and makes directories that only their owner may enter.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::base {

// Reads at most `limit` bytes. RESOURCE_EXHAUSTED for a larger file, which is never cut. Files in /proc work, too.
Result<std::string> read_file(const std::string& path, std::size_t limit = 16u << 20);

// Writes a temporary file beside `path` and renames it over `path`. So a reader sees the whole old or the whole new
// content.
Status write_file_atomically(const std::string& path, std::string_view content, unsigned mode = 0600);

// Does the same as write_file_atomically(), but returns only when the content is on the disk. After a crash of the
// machine, the old or the new content exists. Blocks as long as the disk takes.
Status write_file_durably(const std::string& path, std::string_view content, unsigned mode = 0600);

// Makes `path` with mode 0700. If it exists, checks that it is a real directory and no link, belongs to our uid, and is
// closed to other users. Its parents must exist.
Status make_private_directory(const std::string& path);

// Does the same checks, but makes nothing. NOT_FOUND if it does not exist.
Status check_private_directory(const std::string& path);

// Returns the effective uid's home directory: $HOME if it is absolute, else an error. No NSS look-up, because the agent
// is static.
Result<std::string> home_directory();

}  // namespace muster::base
