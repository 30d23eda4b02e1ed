#include "proto/frame.h"

#include <array>

#include <google/protobuf/message.h>

#include "base/unique_fd.h"
#include "proto/text_fields.h"

namespace muster::proto {
namespace {

constexpr std::size_t kHead = 4;

base::Result<std::uint32_t> length_of(std::string_view head) {
  std::uint32_t length = 0;
  for (std::size_t i = kHead; i-- > 0;) length = length << 8 | static_cast<unsigned char>(head[i]);
  if (length <= kMaxMessageBytes) return length;
  return base::invalid_argument("the peer announced a message of {} bytes: it is not Muster", length);
}

}  // namespace

base::Result<std::string> frame_message(const google::protobuf::Message& message) {
  if (const auto mended = mended_copy(message)) return frame_message(*mended);
  const std::string body = message.SerializeAsString();
  if (body.size() > kMaxMessageBytes) {
    return base::resource_exhausted("a message of {} bytes is longer than the limit of {}", body.size(),
                                    kMaxMessageBytes);
  }
  std::string frame;
  for (int shift = 0; shift < 32; shift += 8) frame += static_cast<char>((body.size() >> shift) & 0xff);
  return frame + body;
}

base::Result<bool> read_message_blocking(int fd, google::protobuf::MessageLite& message) {
  std::array<char, kHead> head{};
  MUSTER_ASSIGN_OR_RETURN(const bool got, base::read_exactly_blocking(fd, head.data(), head.size()));
  if (!got) return false;
  MUSTER_ASSIGN_OR_RETURN(const std::uint32_t length, length_of({head.data(), head.size()}));
  std::string body(length, '\0');
  MUSTER_ASSIGN_OR_RETURN(const bool whole, base::read_exactly_blocking(fd, body.data(), body.size()));
  if (!whole && length > 0) return base::unavailable("the peer closed the connection");
  if (message.ParseFromString(body)) return true;
  return base::invalid_argument("a message of the peer cannot be parsed: the versions may differ");
}

base::Result<std::optional<std::string>> FrameReader::next() {
  if (buffer_.size() < kHead) return std::optional<std::string>();
  MUSTER_ASSIGN_OR_RETURN(const std::uint32_t length, length_of(buffer_));
  if (buffer_.size() < kHead + length) return std::optional<std::string>();
  std::string body = buffer_.substr(kHead, length);
  buffer_.erase(0, kHead + length);
  return std::optional(std::move(body));
}

}  // namespace muster::proto
