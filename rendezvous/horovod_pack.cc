#include "rendezvous/horovod_pack.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>

namespace muster::rendezvous {
namespace {

constexpr std::size_t kStride = 136;
constexpr std::size_t kSizeBytes = 4;
constexpr std::size_t kWorthwhile = 1 << 10;  // shorter values are sent unpacked
constexpr std::size_t kMaxEntries = 1 << 14;  // larger than the number of ranks that start at once

void append_number(std::string* to, std::size_t number) {
  for (; number >= 0x80; number >>= 7) to->push_back(static_cast<char>(0x80 | (number & 0x7f)));
  to->push_back(static_cast<char>(number));
}

// Removes a LEB128 number from the front and returns it. nullopt if it is incomplete or exceeds `max`.
std::optional<std::size_t> read_number(std::string_view* from, std::size_t max) {
  std::size_t number = 0;
  for (unsigned shift = 0; shift < 35 && !from->empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(from->front());
    from->remove_prefix(1);
    number |= static_cast<std::size_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return number <= max ? std::optional(number) : std::nullopt;
  }
  return std::nullopt;
}

char before(std::string_view value, std::size_t at) {
  return at < kStride ? '\0' : value[at - kStride];
}

// Returns the first position from `at` on whose byte differs from the byte 136 positions before it.
std::size_t end_of_same(std::string_view value, std::size_t at) {
  static constexpr std::array<char, kStride> kZeros{};
  while (at < value.size()) {
    const char* const then = at < kStride ? kZeros.data() : value.data() + (at - kStride);
    const std::size_t most = at < kStride ? kStride - at : value.size() - at;
    const std::size_t size = std::min({most, value.size() - at, sizeof(std::uint64_t)});
    if (std::memcmp(value.data() + at, then, size) == 0) {
      at += size;
      continue;
    }
    while (value[at] == before(value, at)) ++at;
    return at;
  }
  return at;
}

// Returns the first position from `at` on whose byte equals the byte 136 positions before it.
std::size_t end_of_changed(std::string_view value, std::size_t at) {
  while (at < value.size() && value[at] != before(value, at)) ++at;
  return at;
}

// Writes `count` bytes at `at`, each equal to the byte 136 positions before it. Returns the position after them.
std::size_t repeat(std::string* value, std::size_t at, std::size_t count) {
  const std::size_t end = at + count;
  if (at < kStride) at = std::min(end, kStride);  // the first 136 bytes are zeros already
  while (at < end) {
    const std::size_t size = std::min(end - at, kStride);
    std::memcpy(value->data() + at, value->data() + (at - kStride), size);
    at += size;
  }
  return at;
}

}  // namespace

std::string pack_horovod_value(std::string_view value) {
  MUSTER_CHECK(value.size() <= std::numeric_limits<std::uint32_t>::max());
  std::string packed;
  for (std::size_t i = 0; i < kSizeBytes; ++i) packed.push_back(static_cast<char>(value.size() >> (8 * i)));
  for (std::size_t at = 0; at < value.size();) {
    const std::size_t same = end_of_same(value, at);
    const std::size_t changed = end_of_changed(value, same);
    append_number(&packed, same - at);
    append_number(&packed, changed - same);
    for (std::size_t i = same; i < changed; ++i) packed.push_back(static_cast<char>(value[i] ^ before(value, i)));
    at = changed;
  }
  return packed;
}

base::Result<std::string> unpack_horovod_value(std::string_view packed, std::size_t max_bytes) {
  const auto malformed = [] { return base::invalid_argument("Horovod link: a malformed value"); };
  if (packed.size() < kSizeBytes) return malformed();
  std::size_t size = 0;
  for (std::size_t i = 0; i < kSizeBytes; ++i) {
    size |= static_cast<std::size_t>(static_cast<unsigned char>(packed[i])) << (8 * i);
  }
  packed.remove_prefix(kSizeBytes);
  if (size > max_bytes) return malformed();
  std::string value(size, '\0');
  for (std::size_t at = 0; at < size;) {
    const auto same = read_number(&packed, size - at);
    if (!same) return malformed();
    at = repeat(&value, at, *same);
    const auto changed = read_number(&packed, std::min(size - at, packed.size()));
    if (!changed || *changed > packed.size() || (*same == 0 && *changed == 0)) return malformed();
    for (std::size_t i = 0; i < *changed; ++i, ++at) value[at] = static_cast<char>(packed[i] ^ before(value, at));
    packed.remove_prefix(*changed);
  }
  if (!packed.empty()) return malformed();
  return value;
}

HorovodValue HorovodPacker::packed(const HorovodValue& value) {
  if (value->size() < kWorthwhile) return nullptr;
  const auto known = entries_.find(value.get());
  if (known != entries_.end() && known->second.value.lock() == value) return known->second.packed;
  if (entries_.size() >= kMaxEntries) entries_.clear();
  std::string bytes = pack_horovod_value(*value);
  HorovodValue packed = bytes.size() < value->size() / 2 ? make_horovod_value(std::move(bytes)) : nullptr;
  entries_.insert_or_assign(value.get(), Entry{value, packed});
  return packed;
}

}  // namespace muster::rendezvous
