#include "collectives/transport/tcp_link.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace muster::collectives::inline transport {
namespace {

template <typename Byte>
struct Places {
  std::array<iovec, 2> parts{};
  msghdr message{};

  Places(std::span<Byte> head, std::span<Byte> body) {
    parts[0] = {const_cast<std::byte*>(head.data()), head.size()};
    parts[1] = {const_cast<std::byte*>(body.data()), std::min(body.size(), kMostAtOnce)};
    message.msg_iov = head.empty() ? &parts[1] : parts.data();
    message.msg_iovlen = head.empty() || body.empty() ? 1 : 2;
  }
};

}  // namespace

base::Result<std::unique_ptr<TcpLink>> TcpLink::create(base::UniqueFd socket, std::string peer,
                                                       const TcpOptions& options) {
  const base::Status applied = apply(options, socket.get());
  if (!applied.ok()) return applied.with_context("connection to " + peer);
  return std::unique_ptr<TcpLink>(new TcpLink(std::move(socket), std::move(peer)));
}

std::ptrdiff_t TcpLink::failed(int error) {
  if (error == EAGAIN || error == EINTR) return 0;
  error_ = error;
  return -1;
}

std::ptrdiff_t TcpLink::try_send(std::span<const std::byte> head, std::span<const std::byte> body) {
  const Places places(head, body);
  const ssize_t sent = ::sendmsg(socket_.get(), &places.message, MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent >= 0 ? sent : failed(errno);
}

std::ptrdiff_t TcpLink::try_receive(std::span<std::byte> head, std::span<std::byte> body) {
  Places places(head, body);
  const ssize_t received = ::recvmsg(socket_.get(), &places.message, MSG_DONTWAIT);
  if (received > 0) return received;
  if (received < 0) return failed(errno);
  is_closed_ = true;
  return -1;
}

base::Status TcpLink::why() const {
  if (error_ != 0) {
    return base::unavailable("the connection to {} broke: {}", peer_, std::strerror(error_));
  }
  if (is_closed_) return base::unavailable("{} closed its connection", peer_);
  return base::ok_status();
}

}  // namespace muster::collectives::transport
