#include "agent/evidence/limited_stream.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

namespace muster::agent::inline evidence {

using std::chrono::milliseconds;

base::Result<LimitedStream> LimitedStream::connect(const sockaddr* address, socklen_t size,
                                                   const StreamLimits& limits) {
  base::UniqueFd fd(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return base::errno_error(errno, "open a socket");
  LimitedStream stream(std::move(fd), limits);
  if (::connect(stream.fd(), address, size) == 0) return stream;
  // A Unix socket whose queue is full refuses at once.
  if (errno != EINPROGRESS) return base::unavailable("connect: {}", base::errno_error(errno, "connect").message());
  MUSTER_RETURN_IF_ERROR(stream.wait_for(POLLOUT));
  int failure = 0;
  socklen_t length = sizeof failure;
  if (::getsockopt(stream.fd(), SOL_SOCKET, SO_ERROR, &failure, &length) != 0) failure = errno;
  if (failure != 0) return base::unavailable("{}", base::errno_error(failure, "connect").message());
  return stream;
}

base::Result<LimitedStream> LimitedStream::adopt(base::UniqueFd fd, const StreamLimits& limits) {
  MUSTER_RETURN_IF_ERROR(base::set_nonblocking(fd.get(), true));
  return LimitedStream(std::move(fd), limits);
}

base::Status LimitedStream::wait_for(short events) const {
  while (true) {
    const auto left = std::chrono::ceil<milliseconds>(limits_.deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0) return base::deadline_exceeded("no answer in time");
    pollfd poll{.fd = fd_.get(), .events = events, .revents = 0};
    const int ready = ::poll(&poll, 1, static_cast<int>(std::min<std::int64_t>(left, 60'000)));
    if (ready > 0) return base::ok_status();
    if (ready < 0 && errno != EINTR) return base::errno_error(errno, "wait for an answer");
  }
}

base::Status LimitedStream::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(size));
    } else if (errno == EAGAIN) {
      MUSTER_RETURN_IF_ERROR(wait_for(POLLOUT));
    } else if (errno != EINTR) {
      return base::unavailable("{}", base::errno_error(errno, "send").message());
    }
  }
  return base::ok_status();
}

base::Status LimitedStream::read_some() {
  std::array<char, 64 << 10> bytes;
  MUSTER_RETURN_IF_ERROR(wait_for(POLLIN));
  const ssize_t size = ::read(fd_.get(), bytes.data(), bytes.size());
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return base::ok_status();
  if (size < 0) return base::unavailable("{}", base::errno_error(errno, "read").message());
  is_ended_ = size == 0;
  received_ += static_cast<std::size_t>(size);
  if (received_ > limits_.bytes) return base::resource_exhausted("an answer of more than {} bytes", limits_.bytes);
  rest_.append(bytes.data(), static_cast<std::size_t>(size));
  return base::ok_status();
}

base::Result<std::string> LimitedStream::read_line() {
  std::size_t searched = 0;
  while (true) {
    const std::size_t end = rest_.find('\n', searched);
    if (end != std::string::npos) {
      std::string line = rest_.substr(0, end);
      rest_.erase(0, end + 1);
      if (line.ends_with('\r')) line.pop_back();
      return line;
    }
    searched = rest_.size();
    if (is_ended_) return base::unavailable("the answer ends within a line");
    MUSTER_RETURN_IF_ERROR(read_some());
  }
}

base::Result<std::string> LimitedStream::read_to_end() {
  while (!is_ended_) MUSTER_RETURN_IF_ERROR(read_some());
  return std::exchange(rest_, {});
}

base::Result<std::string> LimitedStream::read_exactly(std::size_t size) {
  if (size > limits_.bytes) return base::resource_exhausted("an answer of {} bytes", size);
  while (rest_.size() < size) {
    if (is_ended_) return base::unavailable("the answer is cut");
    MUSTER_RETURN_IF_ERROR(read_some());
  }
  std::string bytes = rest_.substr(0, size);
  rest_.erase(0, size);
  return bytes;
}

}  // namespace muster::agent::evidence
