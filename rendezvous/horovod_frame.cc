#include "rendezvous/horovod_frame.h"

#include <limits>

#include "rendezvous/meeting_part.h"

namespace muster::rendezvous {
namespace {

template <typename Number>
void append(std::string* to, Number number) {
  for (std::size_t i = 0; i < sizeof number; ++i) to->push_back(static_cast<char>(number >> (8 * i)));
}

template <typename Number>
Number read(std::string_view from, std::size_t at) {
  Number number = 0;
  for (std::size_t i = 0; i < sizeof number; ++i) {
    number = static_cast<Number>(number | static_cast<Number>(static_cast<unsigned char>(from[at + i])) << (8 * i));
  }
  return number;
}

bool is_known(HorovodFrameKind kind) {
  switch (kind) {
    case HorovodFrameKind::kPut:
    case HorovodFrameKind::kFinish:
    case HorovodFrameKind::kFollow:
    case HorovodFrameKind::kEnter:
    case HorovodFrameKind::kStreamOpen:
    case HorovodFrameKind::kStreamBytes:
    case HorovodFrameKind::kStreamCredit:
    case HorovodFrameKind::kStreamClose:
    case HorovodFrameKind::kStreamAsk:
    case HorovodFrameKind::kStreamWait:
    case HorovodFrameKind::kDone:
    case HorovodFrameKind::kBegin:
    case HorovodFrameKind::kSet:
    case HorovodFrameKind::kErased:
    case HorovodFrameKind::kCleared:
    case HorovodFrameKind::kSynced:
    case HorovodFrameKind::kSetPacked:
    case HorovodFrameKind::kMet:
      return true;
  }
  return false;
}

// A part of a fence has more bytes than the longest blob.
std::size_t longest_value(HorovodFrameKind kind, const StoreLimits& limits) {
  const bool is_meeting = kind == HorovodFrameKind::kEnter || kind == HorovodFrameKind::kMet;
  return limits.max_value_bytes + (is_meeting ? kMeetingOverhead : 0);
}

}  // namespace

std::string horovod_frame_head(const HorovodFrame& frame) {
  MUSTER_CHECK(frame.scope.size() <= std::numeric_limits<std::uint16_t>::max());
  MUSTER_CHECK(frame.key.size() <= std::numeric_limits<std::uint16_t>::max());
  MUSTER_CHECK(frame.value.size() <= std::numeric_limits<std::uint32_t>::max());
  std::string head;
  head.reserve(kHorovodFrameHeader + frame.scope.size() + frame.key.size());
  append(&head, static_cast<std::uint32_t>(frame.value.size()));
  append(&head, frame.id);
  append(&head, static_cast<std::uint16_t>(frame.scope.size()));
  append(&head, static_cast<std::uint16_t>(frame.key.size()));
  append(&head, static_cast<std::uint8_t>(frame.kind));
  append(&head, static_cast<std::uint8_t>(frame.code));
  append(&head, std::uint16_t{0});
  head.append(frame.scope);
  head.append(frame.key);
  return head;
}

base::Result<HorovodFrameParse> parse_horovod_frame(std::string_view bytes, const StoreLimits& limits) {
  if (bytes.size() < kHorovodFrameHeader) return HorovodFrameParse{false, {}, kHorovodFrameHeader};
  const std::size_t value = read<std::uint32_t>(bytes, 0);
  const std::size_t scope = read<std::uint16_t>(bytes, 12);
  const std::size_t key = read<std::uint16_t>(bytes, 14);
  HorovodFrame frame;
  frame.id = read<std::uint64_t>(bytes, 4);
  frame.kind = static_cast<HorovodFrameKind>(read<std::uint8_t>(bytes, 16));
  const auto code = read<std::uint8_t>(bytes, 17);
  frame.code = static_cast<base::Code>(code);
  if (!is_known(frame.kind) || code > static_cast<int>(base::Code::kUnauthenticated) ||
      read<std::uint16_t>(bytes, 18) != 0 || scope + key > limits.max_key_bytes ||
      value > longest_value(frame.kind, limits)) {
    return base::invalid_argument("Horovod link: malformed frame (kind {}, code {}, {} + {} + {} bytes)",
                                  static_cast<int>(frame.kind), code, scope, key, value);
  }
  const std::size_t size = kHorovodFrameHeader + scope + key + value;
  if (bytes.size() < size) return HorovodFrameParse{false, {}, size};
  frame.scope = bytes.substr(kHorovodFrameHeader, scope);
  frame.key = bytes.substr(kHorovodFrameHeader + scope, key);
  frame.value = bytes.substr(kHorovodFrameHeader + scope + key, value);
  return HorovodFrameParse{true, frame, size};
}

}  // namespace muster::rendezvous
