// Messages on a byte stream: uint32 little-endian length, then the message. For small messages between a launcher and
// an agent that it started.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <google/protobuf/message_lite.h>

#include "base/status.h"

namespace google::protobuf {
class Message;
}

namespace muster::proto {

inline constexpr std::uint32_t kMaxMessageBytes = 1u << 20;

// RESOURCE_EXHAUSTED: it has more than kMaxMessageBytes; the sentence names no peer. Text that is no UTF-8 is mended
// (text_fields.h).
base::Result<std::string> frame_message(const google::protobuf::Message& message);

// false: the stream ended before the first byte. INVALID_ARGUMENT: what came is no such message.
base::Result<bool> read_message_blocking(int fd, google::protobuf::MessageLite& message);

// Cuts a stream into the bodies of its frames. A plain value; unusable after an error.
class FrameReader {
 public:
  void feed(std::string_view bytes) { buffer_ += bytes; }
  // nullopt: the next one is not complete yet. INVALID_ARGUMENT: a length above kMaxMessageBytes.
  base::Result<std::optional<std::string>> next();
  // At the end of the stream: whether it ended between two messages.
  bool is_empty() const { return buffer_.empty(); }

 private:
  std::string buffer_;
};

}  // namespace muster::proto
