// Frames messages on a byte stream: a uint32 little-endian length, then the message. Serves small messages between a
// launcher and an agent that it started.
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

// RESOURCE_EXHAUSTED if the message is larger than kMaxMessageBytes; the caller adds the peer's name. Text that is not
// UTF-8 is repaired (text_fields.h).
base::Result<std::string> frame_message(const google::protobuf::Message& message);

// false if the stream ended before the first byte. INVALID_ARGUMENT if the bytes are not such a message.
base::Result<bool> read_message_blocking(int fd, google::protobuf::MessageLite& message);

// Cuts a stream into the bodies of its frames. A plain value; unusable after an error.
class FrameReader {
 public:
  void feed(std::string_view bytes) { buffer_ += bytes; }
  // nullopt if the next frame is not complete yet. INVALID_ARGUMENT if its length is above kMaxMessageBytes.
  base::Result<std::optional<std::string>> next();
  // Call at the end of the stream: true if it ended between two messages.
  bool is_empty() const { return buffer_.empty(); }

 private:
  std::string buffer_;
};

}  // namespace muster::proto
