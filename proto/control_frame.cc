#include "proto/control_frame.h"

#include "base/little_endian.h"

namespace muster::proto {
namespace {

constexpr std::size_t kKindAt = 4;

std::size_t limit_of(ControlKind kind, std::size_t limit) {
  switch (kind) {
    case ControlKind::kMessage:
      return limit;
    case ControlKind::kEnd:
      return kMaxEndReason;
    case ControlKind::kUnreadable:
      return 0;
  }
  return 0;
}

bool is_known(ControlKind kind) {
  return kind == ControlKind::kMessage || kind == ControlKind::kEnd || kind == ControlKind::kUnreadable;
}

}  // namespace

void append_control_header(ControlKind kind, std::size_t payload_size, std::string& to) {
  char header[kControlHeaderSize] = {};
  base::put_little_endian(header, static_cast<std::uint32_t>(payload_size));
  header[kKindAt] = static_cast<char>(kind);
  to.append(header, sizeof header);
}

base::Result<ControlParse> parse_control_frame(std::string_view bytes, std::size_t limit) {
  if (bytes.size() < kControlHeaderSize) return ControlParse{.is_complete = false, .size = kControlHeaderSize};
  const std::size_t length = base::get_little_endian<std::uint32_t>(bytes.data());
  const auto kind = static_cast<ControlKind>(static_cast<unsigned char>(bytes[kKindAt]));
  const bool is_padded = bytes.substr(kKindAt + 1, 3) == std::string_view("\0\0\0", 3);
  if (!is_known(kind) || !is_padded || length > limit_of(kind, limit)) {
    return base::invalid_argument("control channel: malformed frame (kind {}, {} bytes)", static_cast<unsigned>(kind),
                                  length);
  }
  const std::size_t size = kControlHeaderSize + length;
  if (bytes.size() < size) return ControlParse{.is_complete = false, .size = size};
  return ControlParse{
      .is_complete = true, .frame = {.kind = kind, .payload = bytes.substr(kControlHeaderSize, length)}, .size = size};
}

}  // namespace muster::proto
