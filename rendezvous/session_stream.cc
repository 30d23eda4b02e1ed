#include "rendezvous/session_stream.h"

#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <utility>

namespace muster::rendezvous {
namespace {

constexpr std::size_t kReadSize = 64 << 10;
constexpr int kReadsPerCall = 16;  // after that many, other descriptors get their turn; the next poll reports the rest

base::Status broken(int errno_value) {
  const base::Status why = base::errno_error(errno_value, "session connection");
  return {base::Code::kUnavailable, why.message()};
}

}  // namespace

SessionStream::SessionStream(base::UniqueFd socket, std::size_t max_queued_bytes)
    : socket_(std::move(socket)), max_queued_bytes_(max_queued_bytes) {
  (void)base::set_nonblocking(socket_.get(), true);  // an invalid descriptor fails at its first use
}

base::Result<bool> SessionStream::read(const Take& take) {
  char bytes[kReadSize];
  for (int i = 0; i < kReadsPerCall; ++i) {
    const ssize_t count = ::recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (count < 0) return broken(errno);
    if (count == 0) {
      if (reader_.is_empty()) return false;
      return base::unavailable("session connection: it ended in the middle of a message");
    }
    reader_.append({bytes, static_cast<std::size_t>(count)});
    for (;;) {
      MUSTER_ASSIGN_OR_RETURN(std::optional<SessionMessage> message, reader_.next());
      if (!message) break;
      MUSTER_RETURN_IF_ERROR(take(std::move(*message)));
    }
  }
  return true;
}

base::Status SessionStream::send(const SessionMessage& message) {
  const std::string frame = encode_session(message);
  if (unsent_.size() - sent_ + frame.size() > max_queued_bytes_) {
    return base::resource_exhausted("session connection: the other end does not read ({} bytes wait for it)",
                                    unsent_.size() - sent_);
  }
  unsent_ += frame;
  return flush();
}

base::Status SessionStream::flush() {
  while (wants_write()) {
    const ssize_t count =
        ::send(socket_.get(), unsent_.data() + sent_, unsent_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (count < 0) return broken(errno);
    sent_ += static_cast<std::size_t>(count);
  }
  if (!wants_write()) {
    unsent_.clear();
    sent_ = 0;
  } else if (sent_ > kReadSize) {
    unsent_.erase(0, std::exchange(sent_, 0));
  }
  return base::ok_status();
}

}  // namespace muster::rendezvous
