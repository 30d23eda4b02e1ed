#include "base/tls_pump.h"

#include <sys/socket.h>

#include <cerrno>

namespace muster::base {
namespace {

constexpr std::size_t kRound = 64 * 1024;
constexpr int kRoundsAStep = 16;

}  // namespace

TlsPump::TlsPump(TlsStream stream, UniqueFd local) : stream_(std::move(stream)), local_(std::move(local)) {}

void TlsPump::prepare(pollfd& remote, pollfd& local) const {
  remote = {stream_.fd(), 0, 0};
  if (incoming_.empty() && !has_remote_ended_) remote.events |= POLLIN;
  if (wants_to_write_) remote.events |= POLLOUT;
  if (remote.events == 0 || is_remote_gone_)
    remote.fd = -1;  // a hang-up of this socket would wake poll() again and again
  local = {local_.get(), 0, 0};
  if (!has_local_ended_ && outgoing_.empty()) local.events |= POLLIN;
  if (!incoming_.empty()) local.events |= POLLOUT;
  // Do not poll the local socket without events either, for the same reason. But poll it after its end of stream, to
  // detect that its peer is gone.
  if (is_local_gone_ || (!has_local_ended_ && local.events == 0)) local.fd = -1;
}

bool TlsPump::step() {
  has_more_ = true;
  for (int i = 0; i < kRoundsAStep && has_more_; ++i) {
    has_more_ = to_remote();
    has_more_ = to_local() || has_more_;
  }
  check_for_hang_up();
  if (is_remote_gone_) return !incoming_.empty() && !is_local_gone_;
  if (is_local_gone_ && has_sent_end_) return false;
  return !(has_sent_end_ && has_passed_end_);
}

bool TlsPump::to_remote() {
  if (is_remote_gone_) return false;
  if (outgoing_.empty() && !has_local_ended_) {
    outgoing_.resize(kRound);
    const ssize_t count = ::recv(local_.get(), outgoing_.data(), kRound, MSG_DONTWAIT);
    const int failure = errno;
    outgoing_.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    has_local_ended_ = count == 0 || (count < 0 && failure != EAGAIN && failure != EINTR);
  }
  if (outgoing_.empty()) {
    if (!has_local_ended_ || has_sent_end_) return false;
    has_sent_end_ = true;
    stream_.close_notify();
    return true;
  }
  const auto moved = stream_.write(outgoing_.data(), outgoing_.size());
  is_remote_gone_ = !moved.ok();
  wants_to_write_ = moved.ok() && moved->progress == TlsProgress::kWantWrite;
  if (!moved.ok() || moved->bytes == 0) return false;
  outgoing_.erase(0, moved->bytes);
  return true;
}

void TlsPump::read_remote() {
  incoming_.resize(kRound);
  const auto moved = stream_.read(incoming_.data(), kRound);
  incoming_.resize(moved.ok() ? moved->bytes : 0);
  if (!moved.ok()) is_remote_gone_ = true;
  if (moved.ok() && moved->progress == TlsProgress::kEof) has_remote_ended_ = true;
}

bool TlsPump::to_local() {
  if (incoming_.empty() && !has_remote_ended_ && !is_remote_gone_) read_remote();
  if (incoming_.empty()) {
    if (!has_remote_ended_ || has_passed_end_) return false;
    has_passed_end_ = true;
    ::shutdown(local_.get(), SHUT_WR);
    return true;
  }
  if (is_local_gone_) {
    incoming_.clear();
    return true;
  }
  const ssize_t count = ::send(local_.get(), incoming_.data(), incoming_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  is_local_gone_ = count < 0;
  if (count > 0) incoming_.erase(0, static_cast<std::size_t>(count));
  return true;
}

void TlsPump::check_for_hang_up() {
  if (!has_local_ended_ || is_local_gone_) return;
  pollfd local{local_.get(), 0, 0};
  is_local_gone_ = ::poll(&local, 1, 0) > 0 && (local.revents & (POLLHUP | POLLERR)) != 0;
}

}  // namespace muster::base
