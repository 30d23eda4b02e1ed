// The bytes in which hosts of a tree exchange the blobs of a fence (host_meetings.h). Hosts are indexes of the job's
// placement. A fence may take several parts. Each part names all members, so a host can forward a fence in which it has
// no ranks.
//
// Format (ours; all hosts are of one build): little endian u32 numbers. The count of ranges, and for each the first and
// the last host. Then the count of entries, and for each the host, the length of its blob, and the blob.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace muster::rendezvous {

// The hosts of a fence, as ascending ranges that neither touch nor overlap.
class HostSet {
 public:
  HostSet() = default;
  explicit HostSet(const std::vector<int>& ascending);

  std::size_t size() const;
  bool contains(int host) const;
  const std::vector<std::pair<int, int>>& ranges() const { return ranges_; }
  bool operator==(const HostSet&) const = default;

 private:
  friend base::Result<struct MeetingPart> parse_meeting_part(std::string_view bytes, int hosts);
  std::vector<std::pair<int, int>> ranges_;  // first and last
};

struct MeetingEntry {
  int host = 0;
  std::string_view blob;
};

struct MeetingPart {
  HostSet members;
  std::vector<MeetingEntry> entries;  // ascending; in a parsed part, the blobs point into the given bytes
};

// The bytes that a part needs beside its blobs, for a job of any size that Muster starts.
inline constexpr std::size_t kMeetingOverhead = std::size_t{1} << 20;

std::string encode_meeting_part(const MeetingPart& part);

// INVALID_ARGUMENT unless encode_meeting_part() made `bytes` for a job of so many hosts, with at least one entry.
base::Result<MeetingPart> parse_meeting_part(std::string_view bytes, int hosts);

}  // namespace muster::rendezvous
