#include "agent/link/gone_check.h"

#include <sys/socket.h>

#include <cerrno>

namespace muster::agent::inline link {

GoneCheck::GoneCheck(base::Loop& loop, const base::IpAddress& address, std::uint16_t port,
                     std::function<void()> on_gone, Options options)
    : loop_(loop), address_(address), port_(port), on_gone_(std::move(on_gone)), options_(options) {}

void GoneCheck::begin(bool by_launcher) {
  end();
  is_ended_by_launcher_ = by_launcher;
  next_ = loop_.after(base::Duration::zero(), [this] { probe(); });
}

void GoneCheck::end() {
  watch_.cancel();
  deadline_.cancel();
  next_.cancel();
  socket_.reset();
}

void GoneCheck::probe() {
  const base::SockAddr to = base::make_sockaddr(address_, port_);
  socket_.reset(::socket(to.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_.valid()) return probe_later();
  const int connected = ::connect(socket_.get(), to.get(), to.size);
  if (connected == 0 || errno != EINPROGRESS) return result(connected == 0 ? 0 : errno);
  watch_ = loop_.on_writable(socket_.get(), [this] { answered(); });
  deadline_ = loop_.after(options_.patience, [this] { result(ETIMEDOUT); });
}

void GoneCheck::answered() {
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  result(error);
}

void GoneCheck::result(int error) {
  watch_.cancel();
  deadline_.cancel();
  socket_.reset();
  const bool is_gone = error == ECONNREFUSED || (error != 0 && is_ended_by_launcher_);
  if (is_gone) return on_gone_();
  // A process listens at the port, or the cause is unknown. Either the stream comes back, or the next probe decides.
  probe_later();
}

void GoneCheck::probe_later() {
  next_ = loop_.after(options_.again, [this] { probe(); });
}

}  // namespace muster::agent::link
