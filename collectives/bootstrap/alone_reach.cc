// How a rank without a launcher comes to rank 0: by TCP and the handshake, at one of several addresses.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/clock.h"
#include "collectives/bootstrap/alone.h"
#include "collectives/bootstrap/poll_until.h"
#include "collectives/transport/handshake.h"

namespace muster::collectives {
namespace {

using std::chrono::milliseconds;

base::Result<base::UniqueFd> connect_until(const base::IpAddress& address, std::uint16_t port,
                                           base::MonotonicTime end) {
  const std::string what = fmt::format("connect to rank 0 at {}", base::format_endpoint(address, port));
  const base::SockAddr to = base::make_sockaddr(address, port);
  base::UniqueFd fd(::socket(to.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return base::errno_error(errno, what);
  int failed = ::connect(fd.get(), to.get(), to.size) == 0 ? 0 : errno;
  if (failed == EINPROGRESS) {
    if (!poll_until(fd.get(), POLLOUT, end)) {
      return base::error(base::Code::kUnavailable, "{}: no answer", what);
    }
    socklen_t size = sizeof failed;
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failed, &size) != 0) failed = errno;
  }
  if (failed != 0) return base::Status(base::Code::kUnavailable, base::errno_error(failed, what).message());
  const int on = 1;
  (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // only slower without
  return fd;
}

base::Result<base::UniqueFd> shake_hands(base::UniqueFd socket, const std::string& secret, int rank,
                                         base::MonotonicTime end) {
  LinkRequest request;
  request.purpose = LinkRequest::Purpose::kSession;
  request.source = rank;
  request.destination = 0;
  Handshake handshake = Handshake::call(std::move(socket), secret, request);
  for (;;) {
    MUSTER_ASSIGN_OR_RETURN(const Handshake::Turn turn, handshake.step());
    if (turn == Handshake::Turn::kDone) return handshake.take_socket();
    const short events = turn == Handshake::Turn::kWantsRead ? POLLIN : POLLOUT;
    if (!poll_until(handshake.fd(), events, end)) {
      return base::error(base::Code::kUnavailable, "who listens there does not answer as rank 0 does");
    }
  }
}

}  // namespace

Reach reach_session_host(int rank) {
  return [rank](const AlonePlace& place, milliseconds deadline) -> base::Result<base::UniqueFd> {
    base::Status last = base::error(base::Code::kUnavailable, "rank 0 has no address");
    const milliseconds share = deadline / static_cast<int>(std::max<std::size_t>(place.addresses.size(), 1));
    for (const base::IpAddress& address : place.addresses) {
      const base::MonotonicTime end = std::chrono::steady_clock::now() + share;
      auto socket = connect_until(address, place.port, end);
      if (socket.ok()) socket = shake_hands(std::move(*socket), place.secret, rank, end);
      if (socket.ok()) return socket;
      last = socket.status();
    }
    return last;
  };
}

}  // namespace muster::collectives
