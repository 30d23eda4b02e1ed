#include "rendezvous/meeting_part.h"

#include <algorithm>
#include <cstdint>

namespace muster::rendezvous {
namespace {

void append_u32(std::string& to, std::size_t number) {
  for (int shift = 0; shift < 32; shift += 8) to.push_back(static_cast<char>(number >> shift));
}

// Reads numbers and texts from the front of `rest`. `is_good` is false after the bytes did not suffice.
struct PartReader {
  std::string_view rest;
  bool is_good = true;

  std::uint32_t number() {
    std::uint32_t result = 0;
    const std::string_view bytes = text(4);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      result |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    }
    return result;
  }
  std::string_view text(std::size_t size) {
    is_good = is_good && size <= rest.size();
    if (!is_good) return {};
    const std::string_view result = rest.substr(0, size);
    rest.remove_prefix(size);
    return result;
  }
};

base::Status malformed(std::string_view what) {
  return base::invalid_argument("malformed message of a fence: {}", what);
}

}  // namespace

HostSet::HostSet(const std::vector<int>& ascending) {
  for (const int host : ascending) {
    if (!ranges_.empty() && ranges_.back().second + 1 == host) {
      ranges_.back().second = host;
    } else {
      ranges_.emplace_back(host, host);
    }
  }
}

std::size_t HostSet::size() const {
  std::size_t size = 0;
  for (const auto& [first, last] : ranges_) size += static_cast<std::size_t>(last - first) + 1;
  return size;
}

bool HostSet::contains(int host) const {
  const auto after = std::ranges::upper_bound(ranges_, host, {}, &std::pair<int, int>::first);
  return after != ranges_.begin() && host <= std::prev(after)->second;
}

std::string encode_meeting_part(const MeetingPart& part) {
  std::string bytes;
  append_u32(bytes, part.members.ranges().size());
  for (const auto& [first, last] : part.members.ranges()) {
    append_u32(bytes, static_cast<std::size_t>(first));
    append_u32(bytes, static_cast<std::size_t>(last));
  }
  append_u32(bytes, part.entries.size());
  for (const MeetingEntry& entry : part.entries) {
    append_u32(bytes, static_cast<std::size_t>(entry.host));
    append_u32(bytes, entry.blob.size());
    bytes.append(entry.blob);
  }
  return bytes;
}

base::Result<MeetingPart> parse_meeting_part(std::string_view bytes, int hosts) {
  MeetingPart part;
  PartReader reader{bytes};
  const auto limit = static_cast<std::uint32_t>(hosts);
  std::uint32_t lowest = 0;  // the first host that the next range may have
  const std::uint32_t ranges = reader.number();
  for (std::uint32_t i = 0; i < ranges && reader.is_good; ++i) {
    const std::uint32_t first = reader.number();
    const std::uint32_t last = reader.number();
    if (!reader.is_good || first < lowest || last < first || last >= limit) return malformed("its hosts");
    part.members.ranges_.emplace_back(static_cast<int>(first), static_cast<int>(last));
    lowest = last + 2;
  }
  lowest = 0;
  const std::uint32_t entries = reader.number();
  for (std::uint32_t i = 0; i < entries && reader.is_good; ++i) {
    const std::uint32_t host = reader.number();
    const std::string_view blob = reader.text(reader.number());
    if (!reader.is_good) break;
    if (host < lowest || host >= limit || !part.members.contains(static_cast<int>(host))) {
      return malformed("a blob of a host that is no member");
    }
    part.entries.push_back({static_cast<int>(host), blob});
    lowest = host + 1;
  }
  if (!reader.is_good || !reader.rest.empty()) return malformed("its length");
  if (part.entries.empty()) return malformed("it has no blob");
  return part;
}

}  // namespace muster::rendezvous
