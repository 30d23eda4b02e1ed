// SHA-256 of whole files. Blocks for as long as the disk takes. Thread: any.
#pragma once

#include <atomic>
#include <string>

#include "base/status.h"

namespace muster::base {

// 32 bytes, of what can be read from `fd` from offset 0 on; its position stays. `stop` is looked at before each
// 256 KiB: CANCELLED.
Result<std::string> sha256_of_file(int fd, const std::atomic<bool>* stop = nullptr);

}  // namespace muster::base
