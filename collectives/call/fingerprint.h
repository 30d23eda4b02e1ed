// Short hashes of values that ranks must agree on and that a Call has no field for.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace muster::collectives::inline call {

// The mixing function of splitmix64: each input bit changes half of the output bits.
constexpr std::uint64_t mix(std::uint64_t bits) {
  bits += 0x9e3779b97f4a7c15;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

// Hashes integers in their order.
template <typename Values>
constexpr std::uint64_t hash_of(const Values& values) {
  std::uint64_t hash = values.size();
  for (const auto value : values) hash = mix(hash ^ static_cast<std::uint64_t>(value));
  return hash;
}

// A value below -1, to use in place of a root in calls without one.
constexpr std::int32_t as_root(std::uint64_t hash) {
  return -2 - static_cast<std::int32_t>(hash & 0x3fffffff);
}

}  // namespace muster::collectives::call
