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

// Returns the HMAC of all parts, one after the other. It does not cover the boundaries between parts. So all parts but
// the last must have known sizes.
HmacDigest hmac_sha256(std::string_view secret, std::initializer_list<std::string_view> parts);

// Takes the same time for equal and for different bytes. Returns false at once if the sizes differ.
bool is_equal_in_constant_time(std::string_view a, std::string_view b);

// Overwrites the bytes. The optimizer cannot remove these writes, even if the bytes are not read again.
void wipe(void* data, std::size_t size);
inline void wipe(std::string& secret) {
  wipe(secret.data(), secret.size());
}

}  // namespace muster::base
