// Resource limits of ranks in the user's notation (--ulimit). Plain values, pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::model {

// A limit in setrlimit's form; kUnlimited is RLIM_INFINITY.
struct Ulimit {
  static constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

  int resource = 0;  // RLIMIT_* of Linux, the same on all hosts
  std::uint64_t soft = kUnlimited;
  std::uint64_t hard = kUnlimited;

  bool operator==(const Ulimit&) const = default;
};

// Parses "nofile=4096", "core=unlimited" or "stack=8388608:unlimited" (soft:hard; one value sets both). Values are in
// setrlimit's units: bytes, numbers, seconds. INVALID_ARGUMENT names the nearest limit.
base::Result<Ulimit> parse_ulimit(std::string_view text);

// Returns text such as "nofile"; "resource 99" for a number without a name.
std::string ulimit_name(int resource);

}  // namespace muster::model
