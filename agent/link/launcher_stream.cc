// LauncherStream: read connect(), serve() and step() first.
#include "agent/link/launcher_stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "agent/link/control_client.h"
#include "base/free_if_empty.h"
#include "base/net.h"
#include "proto/relay_frame.h"

namespace muster::agent::inline link {
namespace {

using base::TlsProgress;

constexpr std::size_t kReadAtOnce = std::size_t{16} * 1024;
constexpr std::size_t kTurn = std::size_t{256} * 1024;  // bytes that may be read before other tasks of the loop run
constexpr std::size_t kKeptCapacity = 4096;
// How long the launcher's machine may be silent: a probe after 1 s without bytes, and an answer within this time.
constexpr int kSilenceMilliseconds = 2'500;

void set(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

// A cut must show soon, so that the agent dials again.
void watch_for_silence(int fd) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 2);
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kSilenceMilliseconds);
}

bool is_silence(int error) {
  return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH || error == EHOSTDOWN;
}

void shrink(std::string& buffer) {
  base::free_if_empty(buffer, kKeptCapacity);
}

}  // namespace

LauncherStream::LauncherStream(base::Loop& loop, const base::TlsKey& key, Events events)
    : loop_(loop), key_(key), events_(std::move(events)) {}

void LauncherStream::connect(const LauncherRoute::Way& way) {
  const base::SockAddr to = base::make_sockaddr(way.address, way.port);
  fd_.reset(::socket(to.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd_.valid()) return fail(base::errno_error(errno, "make a socket"));
  if (::connect(fd_.get(), to.get(), to.size) != 0 && errno != EINPROGRESS) {
    const int error = errno;
    return fail(base::errno_error(error, "connect to the launcher"), error);
  }
  connecting_ = loop_.on_writable(fd_.get(), [weak = weak_from_this(), way] {
    if (const auto self = weak.lock()) self->connected(way);
  });
}

void LauncherStream::connected(const LauncherRoute::Way& way) {
  connecting_.cancel();
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return fail(base::errno_error(error, "connect to the launcher"), error);
  watch_for_silence(fd_.get());
  if (way.is_relay) {
    const std::string hello = proto::via_hello(proto::ViaService::kControl);
    const ssize_t sent = ::send(fd_.get(), hello.data(), hello.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(hello.size())) return fail(base::unavailable("the relay takes no bytes"));
  }
  if (events_.on_open) events_.on_open();
  if (!is_closed_) use(std::move(fd_));
}

void LauncherStream::use(base::UniqueFd connected) {
  auto context = base::TlsContext::client(key_);
  if (!context.ok()) return fail(context.status());
  tls_.emplace(*context, std::move(connected));
  serve();
}

void LauncherStream::use(std::unique_ptr<base::ByteChannel> channel) {
  auto context = base::TlsContext::client(key_);
  if (!context.ok()) return fail(context.status());
  tls_.emplace(*context, std::move(channel));
  serve();
}

void LauncherStream::serve() {
  if (is_closed_ || !tls_) return;
  const auto keep = shared_from_this();
  const base::Status status = step();
  if (is_closed_) return;
  if (!status.ok()) return fail(status, tls_->system_error());
  watch();
}

base::Status LauncherStream::step() {
  if (!is_up_) {
    MUSTER_ASSIGN_OR_RETURN(const TlsProgress progress, tls_->handshake_step());
    wants_write_ = progress == TlsProgress::kWantWrite;
    if (progress != TlsProgress::kDone) return base::ok_status();
    is_up_ = true;
    events_.on_up();
    if (is_closed_) return base::ok_status();
  }
  MUSTER_RETURN_IF_ERROR(write_some());
  return read_some();
}

base::Status LauncherStream::read_some() {
  std::array<char, kReadAtOnce> buffer;
  std::size_t total = 0;
  while (outgoing_.size() <= ControlClient::kMostUnwritten) {
    MUSTER_ASSIGN_OR_RETURN(const base::TlsTransfer moved, tls_->read(buffer.data(), buffer.size()));
    if (moved.progress == TlsProgress::kEof) return base::unavailable("the launcher closed the connection");
    if (moved.bytes == 0) return base::ok_status();
    partial_.append(buffer.data(), moved.bytes);
    MUSTER_RETURN_IF_ERROR(parse());
    if (is_closed_) return base::ok_status();
    total += moved.bytes;
    if (total < kTurn) continue;
    loop_.post([weak = weak_from_this()] {  // bytes may be buffered although the socket is quiet
      if (const auto self = weak.lock()) self->serve();
    });
    return base::ok_status();
  }
  return base::ok_status();
}

base::Status LauncherStream::parse() {
  std::string bytes = std::exchange(partial_, {});
  std::string_view rest = bytes;
  while (!is_closed_) {
    MUSTER_ASSIGN_OR_RETURN(const proto::ControlParse parse,
                            proto::parse_control_frame(rest, proto::kMaxLauncherMessage));
    if (!parse.is_complete) break;
    rest.remove_prefix(parse.size);
    if (parse.frame.kind == proto::ControlKind::kEnd) {
      return base::error(base::Code::kAborted, "{}", parse.frame.payload);
    }
    if (parse.frame.kind == proto::ControlKind::kMessage) take(parse.frame.payload);
  }
  bytes.erase(0, bytes.size() - rest.size());
  shrink(bytes);
  partial_ = std::move(bytes);
  return base::ok_status();
}

void LauncherStream::take(std::string_view payload) {
  v1::LauncherMessage message;
  if (message.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) return events_.on_message(message);
  proto::append_control_header(proto::ControlKind::kUnreadable, 0, outgoing_);
}

void LauncherStream::send(const v1::AgentMessage& message) {
  if (is_closed_) return;
  proto::append_control_header(proto::ControlKind::kMessage, message.ByteSizeLong(), outgoing_);
  message.AppendToString(&outgoing_);
}

void LauncherStream::flush() {
  if (is_closed_ || !is_up_) return;
  const bool was_held = outgoing_.size() > ControlClient::kMostUnwritten;
  const base::Status status = write_some();
  if (!status.ok()) return fail(status, tls_->system_error());
  watch();
  if (!was_held || outgoing_.size() > ControlClient::kMostUnwritten) return;
  loop_.post([weak = weak_from_this()] {  // bytes may be buffered although the socket is quiet
    if (const auto self = weak.lock()) self->serve();
  });
}

base::Status LauncherStream::write_some() {
  std::size_t sent = 0;
  wants_write_ = false;
  base::Status status;
  while (sent < outgoing_.size()) {
    const auto moved = tls_->write(outgoing_.data() + sent, outgoing_.size() - sent);
    status = moved.status();
    if (!moved.ok() || moved->bytes == 0) {
      wants_write_ = moved.ok() && moved->progress == TlsProgress::kWantWrite;
      break;
    }
    sent += moved->bytes;
  }
  outgoing_.erase(0, sent);
  shrink(outgoing_);
  return status;
}

// A channel that is no socket reports by channel_ready().
void LauncherStream::watch() {
  if (tls_->fd() < 0) return;
  const auto serve = [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->serve();
  };
  // While too much is unwritten, serve() reads nothing, and a readable socket would keep the loop busy.
  const bool reads = outgoing_.size() <= ControlClient::kMostUnwritten;
  if (!reads) readable_.cancel();
  if (reads && !readable_.armed()) readable_ = loop_.on_readable(tls_->fd(), serve);
  if (!wants_write_) writable_.cancel();
  if (wants_write_ && !writable_.armed()) writable_ = loop_.on_writable(tls_->fd(), serve);
}

void LauncherStream::fail(const base::Status& why, int error) {
  const auto end = std::exchange(events_.on_end, nullptr);
  close();
  if (end) end(why, !is_silence(error));
}

void LauncherStream::leave() {
  events_ = {};
  flush();
  close();
}

void LauncherStream::close() {
  is_closed_ = true;
  connecting_.cancel();
  readable_.cancel();
  writable_.cancel();
}

}  // namespace muster::agent::link
