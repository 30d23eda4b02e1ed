// SHA-256 of bytes in memory and of whole files. A file blocks for as long as the disk takes. Thread: any.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::base {

inline constexpr std::size_t kSha256Size = 32;

// Returns the 32 bytes of the hash of `bytes`. INTERNAL if OpenSSL does not provide SHA-256.
Result<std::string> sha256_of(std::string_view bytes);

// Returns the 32 bytes of the hash of all that can be read from `fd` from offset 0 on. The position of `fd` does not
// change. CANCELLED if `stop` becomes true, which is checked before each 256 KiB.
Result<std::string> sha256_of_file(int fd, const std::atomic<bool>* stop = nullptr);

}  // namespace muster::base
