#include "launcherd/store/event_group.h"

#include <cstddef>
#include <cstdint>

namespace muster::launcherd::inline store {
namespace {

constexpr int kLengthBytes = 4;  // little-endian
constexpr int kByteBits = 8;

}  // namespace

void add_to_group(std::string_view message, std::string& group) {
  for (int i = 0; i < kLengthBytes; ++i) group.push_back(static_cast<char>(message.size() >> (kByteBits * i)));
  group.append(message);
}

std::optional<std::vector<std::string>> messages_of_group(std::string_view group) {
  std::vector<std::string> messages;
  while (!group.empty()) {
    if (group.size() < kLengthBytes) return std::nullopt;
    std::size_t length = 0;
    for (int i = 0; i < kLengthBytes; ++i) {
      length |= std::size_t{static_cast<std::uint8_t>(group[static_cast<std::size_t>(i)])} << (kByteBits * i);
    }
    group.remove_prefix(kLengthBytes);
    if (length > group.size()) return std::nullopt;
    messages.emplace_back(group.substr(0, length));
    group.remove_prefix(length);
  }
  return messages;
}

}  // namespace muster::launcherd::store
