// Reads files that hold a secret of this user.
#pragma once

#include <string>

#include "base/status.h"

namespace muster::base {

// PERMISSION_DENIED if the file is a link or no plain file, belongs to another user, or if other users may read or
// write it. NOT_FOUND if it does not exist. RESOURCE_EXHAUSTED if it is longer than `limit`. If the file is a FIFO, the
// function does not wait for its writer.
Result<std::string> read_own_file(const std::string& path, std::size_t limit = std::size_t{16} << 10);

}  // namespace muster::base
