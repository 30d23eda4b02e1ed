// Reads files that hold a secret of this user.
#pragma once

#include <string>

#include "base/status.h"

namespace muster::base {

// PERMISSION_DENIED: the file is a link, is no plain file, belongs to another user, or others may read or write it.
// NOT_FOUND: nothing has this name. RESOURCE_EXHAUSTED: it is longer than `limit`. Never waits for a FIFO of that name.
Result<std::string> read_own_file(const std::string& path, std::size_t limit = std::size_t{16} << 10);

}  // namespace muster::base
