// The bytes between agents, relays and the launcher. A relay is an agent through which others reach the launcher. It
// carries their encrypted connections as streams of one connection, and can read none of them.
//
// An agent connects to the relay's port, sends ViaHello, and then speaks as it would with the launcher itself.
// The relay connects to the launcher's port of that service, sends kRelayHello, and then frames. A frame is a header of
// 12 bytes, little endian, and a payload only if it is Data:
//   0 u32 length (Credit: the number of bytes granted)   4 u32 stream   8 u8 kind   9 three bytes of zero
// The relay opens streams, with numbers that only grow. Each direction of a stream may have kRelayWindow bytes on the
// way. The receiver grants more by Credit. A side that has sent Close sends nothing more of the stream; the other side
// answers Close. Proven: the agent behind the stream has proved who it is, so the relay need not limit it as a
// stranger.
//
// Thread: any; pure, no I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::proto {

inline constexpr std::string_view kRelayHello = "MUSTRLY1";
inline constexpr std::size_t kRelayHeaderSize = 12;
inline constexpr std::size_t kMaxRelayPayload = std::size_t{32} * 1024;
inline constexpr std::uint32_t kRelayWindow = 256 * 1024;

// Which service of the launcher an agent wants, or the echo of the relay itself.
enum class ViaService : char { kControl = 'C', kOutput = 'O', kEcho = 'E' };
inline constexpr std::size_t kViaHelloSize = 8;
std::string via_hello(ViaService service);
// nullopt if these are not the bytes of a ViaHello.
std::optional<ViaService> parse_via_hello(std::string_view bytes);

enum class RelayKind : std::uint8_t { kOpen = 1, kData = 2, kCredit = 3, kClose = 4, kProven = 5 };

struct RelayFrame {
  RelayKind kind = RelayKind::kData;
  std::uint32_t stream = 0;
  std::uint32_t credit = 0;    // kCredit
  std::string_view payload{};  // kData; points into the parsed bytes
};

struct RelayParse {
  bool is_complete = false;
  RelayFrame frame{};    // valid if is_complete
  std::size_t size = 0;  // bytes to consume if is_complete; else bytes needed in total
};

void append_relay_frame(const RelayFrame& frame, std::string& to);
// INVALID_ARGUMENT if the kind is unknown, the length is above the limit of its kind, or the padding is not zero.
base::Result<RelayParse> parse_relay_frame(std::string_view bytes);

}  // namespace muster::proto
