#include "collectives/call/communicator_name.h"

#include <fmt/format.h>

#include "collectives/call/fingerprint.h"

namespace muster::collectives::inline call {
namespace {

constexpr std::size_t kNameRoom = 60;  // the limit is 63, and some callers append to the name

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

}  // namespace muster::collectives::call
