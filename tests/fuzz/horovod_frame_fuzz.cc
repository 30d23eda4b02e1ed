// Frames between Horovod caches and their store, from anybody: the parser never reads outside of its bytes nor asks for
// more than the limits, and what it accepts encodes to the same bytes.
#include <cstdint>
#include <cstdlib>

#include "rendezvous/horovod_frame.h"
#include "rendezvous/meeting_part.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::rendezvous;
  constexpr StoreLimits kLimits{.max_key_bytes = 64, .max_value_bytes = 256};
  constexpr std::size_t kLongest = kHorovodFrameHeader + kLimits.max_key_bytes + kLimits.max_value_bytes;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  for (;;) {
    const auto parse = parse_horovod_frame(rest, kLimits);
    if (!parse.ok()) return 0;
    const auto kind = rest.size() < kHorovodFrameHeader ? HorovodFrameKind::kPut
                                                        : HorovodFrameKind{static_cast<std::uint8_t>(rest[16])};
    const bool is_meeting = kind == HorovodFrameKind::kEnter || kind == HorovodFrameKind::kMet;
    if (parse->size > kLongest + (is_meeting ? kMeetingOverhead : 0)) std::abort();
    if (!parse->is_complete) {
      if (parse->size <= rest.size()) std::abort();
      return 0;
    }
    const HorovodFrame& frame = parse->frame;
    if (horovod_frame_head(frame) + std::string(frame.value) != rest.substr(0, parse->size)) std::abort();
    rest.remove_prefix(parse->size);
  }
}
