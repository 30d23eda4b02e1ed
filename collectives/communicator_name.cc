#include "collectives/communicator_name.h"

#include <cstdint>

#include <fmt/format.h>

namespace muster::collectives {
namespace {

constexpr std::size_t kNameRoom = 60;  // of 63, as some add to it

// Of splitmix64: every bit of what goes in changes half of those that come out.
std::uint64_t mix(std::uint64_t bits) {
  bits += 0x9e3779b97f4a7c15;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

template <typename Values>
std::uint64_t hash_of(const Values& values) {
  std::uint64_t hash = values.size();
  for (const auto value : values) hash = mix(hash ^ static_cast<std::uint64_t>(value));
  return hash;
}

std::string join(const std::string& parent, const std::string& own) {
  if (parent.size() + own.size() <= kNameRoom) return parent + own;
  return fmt::format("#{:016x}{}", hash_of(parent), own);
}

}  // namespace

std::string name_of_part(const std::string& parent, int number, int color) {
  return join(parent, fmt::format(".{}.{}", number, color));
}

std::string name_of_group(const std::string& parent, std::span<const int> members, int number) {
  return join(parent, fmt::format(".g{:016x}.{}", hash_of(members), number));
}

}  // namespace muster::collectives
