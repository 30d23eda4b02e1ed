// Messages of fences from anybody: the parser never reads outside of its bytes nor asks for more memory than they have,
// and what it accepts encodes to the same bytes.
#include <cstdint>
#include <cstdlib>

#include "rendezvous/meeting_part.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::rendezvous;
  constexpr int kHosts = 100;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto part = parse_meeting_part(bytes, kHosts);
  if (!part.ok()) return 0;
  for (const MeetingEntry& entry : part->entries) {
    if (!part->members.contains(entry.host) || entry.host >= kHosts) std::abort();
  }
  if (part->entries.size() > part->members.size()) std::abort();
  if (encode_meeting_part(*part) != bytes) std::abort();
  return 0;
}
