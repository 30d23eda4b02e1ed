// The frames of a control channel (agent.proto): how its messages lie in the bytes of a TLS connection, and a parser.
//
// A frame is a header of 8 bytes, little endian, and `length` bytes of payload:
//   0 u32 length   4 u8 kind   5 three bytes of zero
// The payload of a Message is a serialised AgentMessage (from the agent) or LauncherMessage (from the launcher). The
// payload of an End is a sentence that says why the sender closes the connection. An Unreadable has no payload: the
// sender could not read a Message, and has skipped it.
//
// Thread: any; pure, no I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::proto {

inline constexpr std::size_t kControlHeaderSize = 8;
inline constexpr std::size_t kMaxAgentMessage = std::size_t{4} << 20;
// A Launch has the commands and variables of all ranks of a host.
inline constexpr std::size_t kMaxLauncherMessage = std::size_t{1} << 30;

inline constexpr std::size_t kMaxEndReason = 4096;

enum class ControlKind : std::uint8_t { kMessage = 1, kEnd = 2, kUnreadable = 3 };

struct ControlFrame {
  ControlKind kind = ControlKind::kMessage;
  std::string_view payload{};  // points into the parsed bytes
};

struct ControlParse {
  bool is_complete = false;
  ControlFrame frame{};  // valid if is_complete
  std::size_t size = 0;  // bytes to consume if is_complete; else bytes needed in total
};

// Appends the header of a frame. The caller appends the payload.
void append_control_header(ControlKind kind, std::size_t payload_size, std::string& to);
// INVALID_ARGUMENT if the kind is unknown, the payload is larger than `limit` (of an End: kMaxEndReason) or the padding
// is not zero.
base::Result<ControlParse> parse_control_frame(std::string_view bytes, std::size_t limit);

}  // namespace muster::proto
