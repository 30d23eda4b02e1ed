#include "rendezvous/horovod_notice.h"

#include <cstring>
#include <limits>

#include "base/hmac.h"

namespace muster::rendezvous {
namespace {

template <typename Number>
std::string little_endian_bytes(Number number) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof number; ++i) {
    bytes.push_back(static_cast<char>(static_cast<std::uint64_t>(number) >> (8 * i) & 0xff));
  }
  return bytes;
}

std::string pickled_text(std::string_view text) {
  return "X" + little_endian_bytes(static_cast<std::uint32_t>(text.size())) + std::string(text);
}

std::string pickled_number(std::int64_t number) {
  if (number >= 0 && number <= std::numeric_limits<std::int32_t>::max()) {
    return "J" + little_endian_bytes(static_cast<std::int32_t>(number));
  }
  return std::string("\x8a\x08") + little_endian_bytes(number);  // LONG1 with 8 bytes
}

}  // namespace

std::string horovod_notice_body(std::int64_t timestamp, std::uint8_t result) {
  std::string body = "\x80\x02";  // pickle, protocol 2
  body += "chorovod.runner.elastic.worker\nHostsUpdatedRequest\n";
  body += ")\x81}(";  // an object without arguments, and its attributes
  body += pickled_text("timestamp") + pickled_number(timestamp);
  body += pickled_text("res") + "chorovod.runner.elastic.worker\nHostUpdateResult\n";
  body += "K" + std::string(1, static_cast<char>(result)) + "\x85R";  // its value from a number
  body += "ub.";
  return body;
}

std::string horovod_notice_frame(std::string_view key, std::string_view body) {
  const base::HmacDigest digest = base::hmac_sha256(key, {body});
  const auto size = static_cast<std::int32_t>(body.size());
  std::string frame(digest.data(), digest.size());
  frame.append(reinterpret_cast<const char*>(&size), sizeof size);
  frame += body;
  return frame;
}

base::Result<std::size_t> horovod_notice_body_size(std::string_view head) {
  std::int32_t size = 0;
  if (head.size() != kHorovodNoticeHead) return base::invalid_argument("a notice's head has {} bytes", head.size());
  std::memcpy(&size, head.data() + base::kHmacSize, sizeof size);
  if (size < 0 || static_cast<std::size_t>(size) > kMaxNoticeReplyBytes) {
    return base::invalid_argument("a worker's reply announces {} bytes; the limit is {}", size, kMaxNoticeReplyBytes);
  }
  return static_cast<std::size_t>(size);
}

base::Status check_horovod_notice(std::string_view key, std::string_view head, std::string_view body) {
  const base::HmacDigest digest = base::hmac_sha256(key, {body});
  if (base::is_equal_in_constant_time({digest.data(), digest.size()}, head.substr(0, base::kHmacSize))) {
    return base::ok_status();
  }
  return base::permission_denied("a worker's reply is not signed with the worker's key");
}

}  // namespace muster::rendezvous
