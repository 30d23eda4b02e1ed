#include "base/unique_fd.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace muster::base {

void UniqueFd::reset(int fd) {
  const int old = std::exchange(fd_, fd);
  if (old >= 0 && old != fd) ::close(old);
}

Result<FdPair> make_pipe(int flags) {
  int fds[2];
  if (::pipe2(fds, flags | O_CLOEXEC) != 0) return errno_error(errno, "create a pipe");
  return FdPair{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

Result<FdPair> make_socketpair(int type) {
  int fds[2];
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) != 0) return errno_error(errno, "create a socket pair");
  return FdPair{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

Status set_nonblocking(int fd, bool on) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) return errno_error(errno, "read the flags of a file descriptor");
  const int wanted = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
  if (::fcntl(fd, F_SETFL, wanted) != 0) return errno_error(errno, "set the flags of a file descriptor");
  return ok_status();
}

Status write_all_blocking(int fd, const void* data, std::size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::write(fd, at, size);
    if (n < 0) {
      if (errno == EINTR) continue;
      return errno_error(errno, "write");
    }
    at += n;
    size -= static_cast<std::size_t>(n);
  }
  return ok_status();
}

Result<bool> read_exactly_blocking(int fd, void* data, std::size_t size) {
  char* at = static_cast<char*>(data);
  std::size_t got = 0;
  while (got < size) {
    const ssize_t n = ::read(fd, at + got, size - got);
    if (n < 0) {
      if (errno == EINTR) continue;
      return errno_error(errno, "read");
    }
    if (n == 0) {
      if (got == 0) return false;
      return base::data_loss("the stream ended after {} of {} bytes", got, size);
    }
    got += static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace muster::base
