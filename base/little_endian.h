// Writes and reads whole numbers in a file or a stream, least significant byte first. The host's own byte order does
// not matter.
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster::base {

// Writes sizeof(T) bytes to `to`.
template <typename T>
void put_little_endian(char* to, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) to[i] = static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i));
}

// Reads sizeof(T) bytes from `from`.
template <typename T>
T get_little_endian(const char* from) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(from[i])) << (8 * i);
  }
  return static_cast<T>(value);
}

}  // namespace muster::base
