// Sizes for people.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>

#include <fmt/format.h>

namespace muster::launcherd::inline stage {

// Formats a size, for example "1.5 MB".
inline std::string format_bytes(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace muster::launcherd::stage
