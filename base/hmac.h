// HMAC-SHA256 (RFC 2104), with which a peer proves that it knows a secret. Pure functions; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

namespace muster::base {

inline constexpr std::size_t kHmacSize = 32;
using HmacDigest = std::array<char, kHmacSize>;

// Of the parts one after the other: where one ends and the next begins is not part of it, so that all but the last have
// to be of known sizes.
HmacDigest hmac_sha256(std::string_view secret, std::initializer_list<std::string_view> parts);

// Takes as long for equal as for different bytes. Of different sizes: false at once.
bool is_equal_in_constant_time(std::string_view a, std::string_view b);

// Overwrites the bytes, also where an optimizer would see that nobody reads them again.
void wipe(void* data, std::size_t size);
inline void wipe(std::string& secret) {
  wipe(secret.data(), secret.size());
}

}  // namespace muster::base
