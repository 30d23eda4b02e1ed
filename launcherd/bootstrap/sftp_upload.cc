// The SFTP client: Session sends requests and receives replies. The functions below it are the steps of an upload.
// Read sftp_upload at the end first, then write_content, then Session.
#include "launcherd/bootstrap/sftp_upload.h"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

namespace muster::launcherd::inline bootstrap {
namespace {

constexpr std::size_t kUploadPiece = 32 * 1024;
constexpr std::size_t kWritesUnderWay = 64;
constexpr std::size_t kLargestAnswer = 256 * 1024;
constexpr auto kFirstReply = std::chrono::seconds(5);  // a forced command on the host may never reply
constexpr std::uint32_t kFileMode = 0700;
constexpr std::uint32_t kProtocol = 3;

enum : std::uint8_t {
  kInit = 1,
  kVersion = 2,
  kOpen = 3,
  kClose = 4,
  kWrite = 6,
  kRemove = 13,
  kMkdir = 14,
  kStatus = 101,
  kHandle = 102
};
enum : std::uint32_t { kOpenWrite = 0x2, kOpenCreate = 0x8, kOpenExclusive = 0x20, kAttrPermissions = 0x4 };
constexpr std::uint32_t kStatusOk = 0;
constexpr std::uint32_t kStatusDenied = 3;

void put32(std::string& to, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) to += static_cast<char>(value >> shift & 0xff);
}
void put64(std::string& to, std::uint64_t value) {
  put32(to, static_cast<std::uint32_t>(value >> 32));
  put32(to, static_cast<std::uint32_t>(value));
}
void put_string(std::string& to, std::string_view text) {
  put32(to, static_cast<std::uint32_t>(text.size()));
  to.append(text);
}
std::uint32_t get32(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

class Session {
 public:
  Session(RemoteProgram& sftp, const Waiter& waiter) : sftp_(sftp), waiter_(waiter) {}

  // Queues a request. kInit has no id; its version takes the place of the id.
  void send(std::uint8_t type, std::uint32_t id, std::string_view body) {
    put32(out_, static_cast<std::uint32_t>(5 + body.size()));
    out_ += static_cast<char>(type);
    put32(out_, id);
    out_.append(body);
  }

  // Sends queued bytes until a whole reply has arrived. Sets `type`, and sets `body` to the rest after the id.
  Failure receive(std::uint8_t& type, std::string& body) { return receive(type, body, waiter_); }
  Failure receive(std::uint8_t& type, std::string& body, const Waiter& waiter) {
    for (;;) {
      if (in_.size() >= 9) {
        const std::size_t size = get32(in_, 0);
        if (size < 5 || size > kLargestAnswer) return broken();
        if (in_.size() >= 4 + size) {
          type = static_cast<std::uint8_t>(in_[4]);
          body = in_.substr(9, size - 5);
          in_.erase(0, 4 + size);
          return {};
        }
      }
      if (Failure failure = move_bytes(waiter); !failure.ok()) return failure;
    }
  }

  Failure expect_status(std::uint32_t& status) {
    std::uint8_t type = 0;
    std::string body;
    if (Failure failure = receive(type, body); !failure.ok()) return failure;
    if (type != kStatus || body.size() < 4) return broken();
    status = get32(body, 0);
    if (body.size() >= 8) error_text_ = body.substr(8, get32(body, 4));
    return {};
  }

  // Sends without waiting for a reply, until at most one piece is queued.
  Failure push() {
    while (out_.size() - sent_ > kUploadPiece) {
      if (Failure failure = move_bytes(waiter_); !failure.ok()) return failure;
    }
    return {};
  }

  Failure broken() const {
    return {.kind = FailureKind::kNoWrite, .detail = "no SFTP", .printed = in_.substr(0, 4096)};
  }
  const std::string& error_text() const { return error_text_; }

 private:
  Failure move_bytes(const Waiter& waiter) {
    std::string_view input = std::string_view(out_).substr(sent_);
    const std::size_t before = input.size();
    if (Failure failure = sftp_.exchange(input, in_, errors_, waiter); !failure.ok()) return failure;
    sent_ += before - input.size();
    // Drop sent bytes early, because the queue is seldom empty before the whole file has passed through it.
    if (sent_ == out_.size() || sent_ >= kUploadPiece) {
      out_.erase(0, sent_);
      sent_ = 0;
    }
    if (!sftp_.has_ended()) return {};
    return {.kind = FailureKind::kNoWrite, .detail = "SFTP ended", .printed = in_.substr(0, 4096), .errors = errors_};
  }

  RemoteProgram& sftp_;
  const Waiter& waiter_;
  std::string out_;
  std::size_t sent_ = 0;
  std::string in_;
  std::string errors_;
  std::string error_text_;
};

Failure make_directories(Session& session, const std::string& directory) {
  std::string attributes;
  put32(attributes, kAttrPermissions);
  put32(attributes, kFileMode);
  std::uint32_t asked = 0;
  for (std::size_t slash = directory.find('/', 1);; slash = directory.find('/', slash + 1)) {
    std::string body;
    put_string(body, directory.substr(0, slash));
    session.send(kMkdir, 1, body + attributes);
    ++asked;
    if (slash == std::string::npos) break;
  }
  // The host rejects a directory that exists, so ignore the status. A real problem shows when the file is opened.
  std::uint32_t status = 0;
  while (asked-- > 0) {
    if (Failure failure = session.expect_status(status); !failure.ok()) return failure;
  }
  return {};
}

Failure open_file(Session& session, const std::string& path, std::string& handle) {
  std::string body;
  put_string(body, path);
  put32(body, kOpenWrite | kOpenCreate | kOpenExclusive);
  put32(body, kAttrPermissions);
  put32(body, kFileMode);
  session.send(kOpen, 2, body);
  std::uint8_t type = 0;
  std::string answer;
  if (Failure failure = session.receive(type, answer); !failure.ok()) return failure;
  if (type == kHandle && answer.size() >= 4) {
    handle = answer.substr(4, get32(answer, 0));
    return {};
  }
  if (type != kStatus || answer.size() < 4) return session.broken();
  const bool is_denied = get32(answer, 0) == kStatusDenied;
  return {.kind = FailureKind::kNoWrite, .errors = is_denied ? "Permission denied" : "cannot create the file"};
}

Failure write_content(Session& session, const std::string& handle, std::string_view content) {
  std::size_t under_way = 0;
  std::size_t at = 0;
  std::uint32_t status = kStatusOk;
  while (at < content.size() || under_way > 0) {
    if (at < content.size() && under_way < kWritesUnderWay) {
      const std::string_view piece = content.substr(at, kUploadPiece);
      std::string body;
      body.reserve(piece.size() + handle.size() + 16);
      put_string(body, handle);
      put64(body, at);
      put_string(body, piece);
      session.send(kWrite, 3, body);
      at += piece.size();
      ++under_way;
      if (Failure failure = session.push(); !failure.ok()) return failure;
      continue;
    }
    if (Failure failure = session.expect_status(status); !failure.ok()) return failure;
    --under_way;
    if (status != kStatusOk) return {.kind = FailureKind::kNoWrite, .errors = session.error_text()};
  }
  std::string body;
  put_string(body, handle);
  session.send(kClose, 4, body);
  if (Failure failure = session.expect_status(status); !failure.ok()) return failure;
  return status == kStatusOk ? Failure{} : Failure{.kind = FailureKind::kNoWrite, .errors = session.error_text()};
}

}  // namespace

Failure sftp_upload(RemoteProgram& sftp, const std::string& directory, const std::string& path,
                    std::string_view content, const Waiter& waiter, bool& is_usable) {
  is_usable = false;
  Session session(sftp, waiter);
  session.send(kInit, kProtocol, {});
  std::uint8_t type = 0;
  std::string body;
  const Waiter first_reply{waiter.cancel_fd, std::min(waiter.deadline, std::chrono::steady_clock::now() + kFirstReply)};
  if (Failure failure = session.receive(type, body, first_reply); !failure.ok()) return failure;
  if (type != kVersion) return session.broken();
  is_usable = true;
  std::string handle;
  if (Failure failure = make_directories(session, directory); !failure.ok()) return failure;
  if (Failure failure = open_file(session, path, handle); !failure.ok()) return failure;
  return write_content(session, handle, content);
}

void sftp_remove(RemoteProgram& sftp, const std::string& path, const Waiter& waiter) {
  Session session(sftp, waiter);
  session.send(kInit, kProtocol, {});
  std::string body;
  put_string(body, path);
  session.send(kRemove, 5, body);
  std::uint8_t type = 0;
  std::uint32_t status = 0;
  if (!session.receive(type, body).ok() || type != kVersion) return;
  (void)session.expect_status(status);  // ignore an error, because the caller cannot repair it
}

}  // namespace muster::launcherd::bootstrap
