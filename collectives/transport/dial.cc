#include "collectives/transport/dial.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace muster::collectives::inline transport {
namespace {

constexpr int kPollMs = 10;  // limits how long a failure elsewhere goes unnoticed

// If kQuickEnds connections each end within kQuickly, no process listens there, or the listener refuses this rank.
constexpr std::chrono::milliseconds kQuickly{500};
constexpr int kQuickEnds = 4;

base::Status check(base::MonotonicTime end, const AbortRecord* abort) {
  if (abort != nullptr && abort->is_raised()) {
    const Failure failure = abort->read();
    return {failure.code, failure.message};
  }
  if (std::chrono::steady_clock::now() < end) return base::ok_status();
  return {base::Code::kDeadlineExceeded, "no answer"};
}

base::Result<Handshake> shake_hands(Handshake handshake, base::MonotonicTime end, const AbortRecord* abort) {
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const Handshake::Turn turn, handshake.step());
    if (turn == Handshake::Turn::kDone) return handshake;
    MUSTER_RETURN_IF_ERROR(check(end, abort));
    pollfd wanted{handshake.fd(), static_cast<short>(turn == Handshake::Turn::kWantsRead ? POLLIN : POLLOUT), 0};
    poll(&wanted, 1, kPollMs);  // after an error or a signal, the caller checks again
  }
}

}  // namespace

base::Result<base::UniqueFd> begin_connecting(const base::IpAddress& address, std::uint16_t port,
                                              const TcpOptions* options) {
  const base::SockAddr to = base::make_sockaddr(address, port);
  base::UniqueFd socket(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return base::errno_error(errno, "a TCP socket");
  if (options != nullptr) MUSTER_RETURN_IF_ERROR(apply(*options, socket.get()));
  if (::connect(socket.get(), to.get(), to.size) != 0 && errno != EINPROGRESS) {
    return base::Status(base::Code::kUnavailable, std::strerror(errno));
  }
  return socket;
}

base::Result<Handshake> dial(const base::IpAddress& address, std::uint16_t port, const std::string& secret,
                             const LinkRequest& request, base::MonotonicTime end, const AbortRecord* abort,
                             const TcpOptions* options) {
  auto socket = begin_connecting(address, port, options);
  auto done = socket.ok() ? shake_hands(Handshake::call(std::move(*socket), secret, request), end, abort)
                          : base::Result<Handshake>(socket.status());
  if (done.ok() || (abort != nullptr && abort->is_raised())) return done;
  return done.status().with_context(fmt::format("connect to {}", base::format_endpoint(address, port)));
}

base::Result<Handshake> dial_patiently(const std::function<base::Result<Handshake>()>& dial_once,
                                       base::MonotonicTime end, const AbortRecord& abort,
                                       const std::function<bool()>& is_gone) {
  int quick_ends = 0;
  while (true) {
    const base::MonotonicTime began = std::chrono::steady_clock::now();
    auto done = dial_once();
    if (done.ok() || done.status().code() != base::Code::kUnavailable || abort.is_raised()) return done;
    const base::MonotonicTime now = std::chrono::steady_clock::now();
    if (now - began < kQuickly) ++quick_ends;
    if (quick_ends >= kQuickEnds || now >= end || is_gone()) return done;
  }
}

}  // namespace muster::collectives::transport
