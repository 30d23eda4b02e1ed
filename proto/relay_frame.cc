#include "proto/relay_frame.h"

#include "base/little_endian.h"

namespace muster::proto {
namespace {

constexpr std::size_t kStreamAt = 4;
constexpr std::size_t kRelayKindAt = 8;
constexpr std::string_view kViaMagic = "MUSTVIA";

bool is_valid(RelayKind kind, std::size_t length) {
  switch (kind) {
    case RelayKind::kData:
      return length > 0 && length <= kMaxRelayPayload;
    case RelayKind::kCredit:
      return length > 0 && length <= kRelayWindow;
    case RelayKind::kOpen:
    case RelayKind::kClose:
    case RelayKind::kProven:
      return length == 0;
  }
  return false;
}

}  // namespace

std::string via_hello(ViaService service) {
  return std::string(kViaMagic) + static_cast<char>(service);
}

std::optional<ViaService> parse_via_hello(std::string_view bytes) {
  if (bytes.size() != kViaHelloSize || !bytes.starts_with(kViaMagic)) return std::nullopt;
  const auto service = static_cast<ViaService>(bytes.back());
  for (const ViaService known : {ViaService::kControl, ViaService::kOutput, ViaService::kEcho}) {
    if (service == known) return service;
  }
  return std::nullopt;
}

void append_relay_frame(const RelayFrame& frame, std::string& to) {
  char header[kRelayHeaderSize] = {};
  const std::uint32_t length =
      frame.kind == RelayKind::kCredit ? frame.credit : static_cast<std::uint32_t>(frame.payload.size());
  base::put_little_endian(header, length);
  base::put_little_endian(header + kStreamAt, frame.stream);
  header[kRelayKindAt] = static_cast<char>(frame.kind);
  to.append(header, sizeof header);
  if (frame.kind == RelayKind::kData) to.append(frame.payload);
}

base::Result<RelayParse> parse_relay_frame(std::string_view bytes) {
  if (bytes.size() < kRelayHeaderSize) return RelayParse{.is_complete = false, .size = kRelayHeaderSize};
  const auto length = base::get_little_endian<std::uint32_t>(bytes.data());
  RelayFrame frame;
  frame.stream = base::get_little_endian<std::uint32_t>(bytes.data() + kStreamAt);
  frame.kind = static_cast<RelayKind>(static_cast<unsigned char>(bytes[kRelayKindAt]));
  const bool is_padded = bytes.substr(kRelayKindAt + 1, 3) == std::string_view("\0\0\0", 3);
  if (!is_padded || !is_valid(frame.kind, length)) {
    return base::invalid_argument("relay: malformed frame (kind {}, stream {}, {} bytes)",
                                  static_cast<unsigned>(frame.kind), frame.stream, length);
  }
  const std::size_t payload = frame.kind == RelayKind::kData ? length : 0;
  const std::size_t size = kRelayHeaderSize + payload;
  if (bytes.size() < size) return RelayParse{.is_complete = false, .size = size};
  if (frame.kind == RelayKind::kCredit) frame.credit = length;
  frame.payload = bytes.substr(kRelayHeaderSize, payload);
  return RelayParse{.is_complete = true, .frame = frame, .size = size};
}

}  // namespace muster::proto
