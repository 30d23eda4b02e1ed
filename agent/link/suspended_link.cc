#include "agent/link/suspended_link.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace muster::agent::inline link {
namespace {

constexpr int kProbes = 4;
constexpr std::chrono::milliseconds kConnectAgain{1'000};

// Sets idle time and probes so that the connection fails when `lease` has passed without an answer.
void keep_alive(int fd, std::chrono::seconds lease) {
  const int on = 1;
  const int interval = std::max(1, static_cast<int>(lease.count()) / (kProbes + 2));
  const int idle = std::max(1, static_cast<int>(lease.count()) - kProbes * interval);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof kProbes);
}

int error_of(int fd) {
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

}  // namespace

SuspendedLink::SuspendedLink(base::Loop& loop, const base::IpAddress& address, std::uint16_t port,
                             std::chrono::milliseconds lease, std::function<void(const std::string&)> on_lost)
    : loop_(loop),
      address_(address),
      port_(port),
      lease_(std::max(std::chrono::ceil<std::chrono::seconds>(lease), std::chrono::seconds(3))),
      on_lost_(std::move(on_lost)) {}

void SuspendedLink::begin() {
  end();
  deadline_ = loop_.after(lease_, [this] { lost("its machine does not answer"); });
  connect();
}

void SuspendedLink::end() {
  watch_.cancel();
  deadline_.cancel();
  next_.cancel();
  socket_.reset();
}

void SuspendedLink::connect() {
  const base::SockAddr to = base::make_sockaddr(address_, port_);
  socket_.reset(::socket(to.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_.valid()) return connect_later();
  keep_alive(socket_.get(), lease_);
  if (::connect(socket_.get(), to.get(), to.size) != 0 && errno != EINPROGRESS) {
    return errno == ECONNREFUSED ? lost("it has ended") : connect_later();
  }
  watch_ = loop_.on_writable(socket_.get(), [this] { connected(); });
}

void SuspendedLink::connected() {
  watch_.cancel();
  const int error = error_of(socket_.get());
  if (error == ECONNREFUSED) return lost("it has ended");
  if (error != 0) return connect_later();
  deadline_.cancel();
  watch_ = loop_.on_readable(socket_.get(), [this] { readable(); });
}

// The launcher sends no data over this connection. A launcher that runs again accepts it, and closes it because the
// agent sends nothing. Then connect again.
void SuspendedLink::readable() {
  char byte = 0;
  const ssize_t n = ::recv(socket_.get(), &byte, 1, MSG_DONTWAIT);
  if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) return;
  const bool is_silent = n < 0 && (errno == ETIMEDOUT || errno == EHOSTUNREACH || errno == ENETUNREACH);
  if (is_silent) return lost("its machine does not answer");
  deadline_ = loop_.after(lease_, [this] { lost("its machine does not answer"); });
  connect_later();
}

void SuspendedLink::connect_later() {
  watch_.cancel();
  socket_.reset();
  next_ = loop_.after(kConnectAgain, [this] { connect(); });
}

void SuspendedLink::lost(const std::string& why) {
  end();
  on_lost_(why);
}

}  // namespace muster::agent::link
