// Bytes of torch's TCPStore protocol for tests, written out from the table of its op codes and not with the product's
// own functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::rendezvous::testing {

template <typename T>
std::string number(T value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof value; ++i) {  // little endian
    bytes += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i));
  }
  return bytes;
}
inline std::string u8(std::uint8_t value) {
  return number(value);
}
inline std::string u32(std::uint32_t value) {
  return number(value);
}
inline std::string u64(std::uint64_t value) {
  return number(value);
}
inline std::string i64(std::int64_t value) {
  return number(value);
}
inline std::string text(std::string_view bytes) {
  return u64(bytes.size()) + std::string(bytes);
}
inline std::string texts(const std::vector<std::string>& all) {
  std::string bytes = u64(all.size());
  for (const std::string& one : all) bytes += text(one);
  return bytes;
}

// The bytes 00 CE F7 85 3C with which torch >= 2.2 begins.
inline std::string validate() {
  return std::string("\x00\xCE\xF7\x85\x3C", 5);
}

}  // namespace muster::rendezvous::testing
