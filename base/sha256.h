// SHA-256 of whole files. Blocks for as long as the disk takes. Thread: any.
#pragma once

#include <atomic>
#include <string>

#include "base/status.h"

namespace muster::base {

// Returns the 32 bytes of the hash of all that can be read from `fd` from offset 0 on. The position of `fd` does not
// change. CANCELLED if `stop` becomes true, which is checked before each 256 KiB.
Result<std::string> sha256_of_file(int fd, const std::atomic<bool>* stop = nullptr);

}  // namespace muster::base
