#include "agent/link/relay_watch.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "base/net.h"
#include "proto/relay_frame.h"

namespace muster::agent::inline link {

void RelayWatch::begin(const LauncherRoute::Way& relay) {
  end();
  relay_ = relay;
  last_echo_ = base::monotonic_now();
  connect();
  ticks_ = loop_.every(options_.period, [this] { tick(); });
}

void RelayWatch::end() {
  ticks_.cancel();
  readable_.cancel();
  socket_.reset();
}

void RelayWatch::connect() {
  const base::SockAddr to = base::make_sockaddr(relay_->address, relay_->port);
  readable_.cancel();
  socket_.reset(::socket(to.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_.valid()) return;  // the next tick tries again
  if (::connect(socket_.get(), to.get(), to.size) != 0 && errno != EINPROGRESS) return socket_.reset();
  has_said_hello_ = false;
  readable_ = loop_.on_readable(socket_.get(), [this] { readable(); });
}

void RelayWatch::tick() {
  if (base::monotonic_now() - last_echo_ > options_.patience) {
    end();
    return on_silent_();
  }
  if (!socket_.valid()) return connect();
  // The hello goes with the first byte that the connection takes. What it does not take is missed as an echo.
  const std::string question = (has_said_hello_ ? "" : proto::via_hello(proto::ViaService::kEcho)) + "?";
  const ssize_t sent = ::send(socket_.get(), question.data(), question.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  has_said_hello_ = has_said_hello_ || sent == static_cast<ssize_t>(question.size());
}

void RelayWatch::readable() {
  std::array<char, 64> buffer;
  const ssize_t n = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (n > 0) last_echo_ = base::monotonic_now();
  if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) return;
  readable_.cancel();
  socket_.reset();  // the relay is full, or gone; the next tick tries again
}

}  // namespace muster::agent::link
