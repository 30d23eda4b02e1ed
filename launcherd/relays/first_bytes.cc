#include "launcherd/relays/first_bytes.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "proto/relay_frame.h"

namespace muster::launcherd::inline relays {

FirstBytes::Peer FirstBytes::read() {
  // TLS begins with another byte than kRelayHello.
  char first = 0;
  if (hello_.empty()) {
    const ssize_t n = ::recv(fd_.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return Peer::kUnknown;
    if (n <= 0) return Peer::kGone;
    if (first != proto::kRelayHello.front()) return Peer::kAgent;
  }
  std::array<char, proto::kRelayHello.size()> buffer;
  const ssize_t n = ::recv(fd_.get(), buffer.data(), buffer.size() - hello_.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return Peer::kUnknown;
  if (n <= 0) return Peer::kGone;
  hello_.append(buffer.data(), static_cast<std::size_t>(n));
  if (!proto::kRelayHello.starts_with(hello_)) return Peer::kGone;
  return hello_.size() < proto::kRelayHello.size() ? Peer::kUnknown : Peer::kRelay;
}

}  // namespace muster::launcherd::relays
