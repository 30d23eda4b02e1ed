#include "agent/relay/relay_child.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/free_if_empty.h"
#include "base/send_some.h"

namespace muster::agent::inline relay {
namespace {

bool is_later(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

base::Status gone(int error) {
  if (error == 0) return base::unavailable("the child closed its connection");
  return base::errno_error(error, "the connection of a child");
}

}  // namespace

base::Result<bool> RelayChild::read_hello() {
  std::array<char, proto::kViaHelloSize> buffer;
  const ssize_t n = ::recv(fd_.get(), buffer.data(), buffer.size() - hello_.size(), MSG_DONTWAIT);
  if (n < 0 && is_later(errno)) return false;
  if (n <= 0) return gone(n == 0 ? 0 : errno);
  hello_.append(buffer.data(), static_cast<std::size_t>(n));
  if (hello_.size() < proto::kViaHelloSize) return false;
  const auto service = proto::parse_via_hello(hello_);
  if (!service) return base::invalid_argument("a connection to the relay does not begin as that of an agent");
  service_ = *service;
  return true;
}

base::Result<bool> RelayChild::forward(std::string& outgoing) {
  std::array<char, proto::kMaxRelayPayload> buffer;
  const std::size_t most = std::min<std::size_t>(buffer.size(), credit);
  if (most == 0) return false;
  const ssize_t n = ::recv(fd_.get(), buffer.data(), most, MSG_DONTWAIT);
  if (n < 0 && is_later(errno)) return false;
  if (n <= 0) return gone(n == 0 ? 0 : errno);
  const auto moved = static_cast<std::size_t>(n);
  credit -= static_cast<std::uint32_t>(moved);
  proto::append_relay_frame({.kind = proto::RelayKind::kData, .stream = stream, .payload = {buffer.data(), moved}},
                            outgoing);
  return true;
}

base::Status RelayChild::take(std::string_view bytes) {
  if (to_child_.size() + to_grant_ + bytes.size() > proto::kRelayWindow) {
    return base::invalid_argument("the launcher sends more bytes of a stream than were granted");
  }
  to_child_.append(bytes);
  return base::ok_status();
}

base::Status RelayChild::write_some(std::string& outgoing) {
  MUSTER_ASSIGN_OR_RETURN(const base::SentBytes sent,
                          base::send_some(fd_.get(), to_child_, "the connection of a child"));
  wants_write = sent.is_blocked;
  base::free_if_empty(to_child_, 4096);
  to_grant_ += static_cast<std::uint32_t>(sent.bytes);
  if (phase != Phase::kOpen || to_grant_ < proto::kRelayWindow / 4) return base::ok_status();
  proto::append_relay_frame(
      {.kind = proto::RelayKind::kCredit, .stream = stream, .credit = std::exchange(to_grant_, 0)}, outgoing);
  return base::ok_status();
}

base::Status RelayChild::echo() {
  std::array<char, 64> buffer;
  const ssize_t n = ::recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (n < 0 && is_later(errno)) return base::ok_status();
  if (n <= 0) return gone(n == 0 ? 0 : errno);
  // A child that does not read its echo has no use for it, so what its socket does not accept is dropped.
  (void)::send(fd_.get(), buffer.data(), static_cast<std::size_t>(n), MSG_DONTWAIT | MSG_NOSIGNAL);
  return base::ok_status();
}

}  // namespace muster::agent::relay
