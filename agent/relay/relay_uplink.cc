#include "agent/relay/relay_uplink.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>

#include "base/send_some.h"

namespace muster::agent::inline relay {
namespace {

constexpr std::chrono::milliseconds kFirstPause{50};
constexpr std::chrono::milliseconds kLongestPause{500};
constexpr std::chrono::seconds kConnectPatience{2};
// How long the launcher's machine may be silent: a probe after 1 s without bytes, and an answer within this time.
constexpr int kSilentMilliseconds = 2'500;

void set_option(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

}  // namespace

base::Status RelayUplink::connect(base::MonotonicTime now) {
  const base::SockAddr to = base::make_sockaddr(launcher_, port_);
  fd_.reset(::socket(to.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd_.valid()) return base::errno_error(errno, "make a socket");
  set_option(fd_.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd_.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd_.get(), IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set_option(fd_.get(), IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set_option(fd_.get(), IPPROTO_TCP, TCP_KEEPCNT, 2);
  set_option(fd_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, kSilentMilliseconds);
  if (::connect(fd_.get(), to.get(), to.size) != 0 && errno != EINPROGRESS) {
    return base::errno_error(errno, "connect to the launcher");
  }
  phase_ = Phase::kConnecting;
  deadline_ = now + kConnectPatience;
  outgoing = proto::kRelayHello;
  wants_write_ = true;
  last_stream_ = 0;
  return base::ok_status();
}

base::Status RelayUplink::connected() {
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return base::errno_error(error, "connect to the launcher");
  phase_ = Phase::kUp;
  failures_ = 0;
  return write_some();
}

base::Status RelayUplink::read_some(const std::function<base::Status(const proto::RelayFrame&)>& on_frame) {
  std::array<char, std::size_t{64} * 1024> buffer;
  const ssize_t n = ::recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return base::ok_status();
  if (n < 0) return base::errno_error(errno, "the connection to the launcher");
  if (n == 0) return base::unavailable("the launcher closed the connection");
  partial_.append(buffer.data(), static_cast<std::size_t>(n));
  std::string_view rest = partial_;
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const proto::RelayParse parse, proto::parse_relay_frame(rest));
    if (!parse.is_complete) break;
    MUSTER_RETURN_IF_ERROR(on_frame(parse.frame));
    rest.remove_prefix(parse.size);
  }
  partial_.erase(0, partial_.size() - rest.size());
  return base::ok_status();
}

base::Status RelayUplink::write_some() {
  MUSTER_ASSIGN_OR_RETURN(const base::SentBytes sent,
                          base::send_some(fd_.get(), outgoing, "the connection to the launcher"));
  wants_write_ = sent.is_blocked;
  return base::ok_status();
}

void RelayUplink::lost(base::MonotonicTime now) {
  fd_.reset();
  phase_ = Phase::kDown;
  partial_.clear();
  outgoing.clear();
  wants_write_ = was_full = false;
  polled = 0;
  again_ = now + std::min<base::Duration>(kFirstPause * (1 << std::min(failures_, 4)), kLongestPause);
  ++failures_;
}

}  // namespace muster::agent::relay
