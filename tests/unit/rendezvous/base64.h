// Encodes bytes as base64, as Horovod's workers encode their addresses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace muster::rendezvous {

inline std::string to_base64(std::string_view bytes) {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      bits = bits << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    }
    for (std::size_t i = 0; i < 4; ++i)
      text.push_back(at + i > bytes.size() ? '=' : kDigits[bits >> (18 - 6 * i) & 63]);
  }
  return text;
}

}  // namespace muster::rendezvous
