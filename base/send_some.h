// Sends from the front of a buffer what a socket accepts now.
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::base {

struct SentBytes {
  std::size_t bytes = 0;
  bool is_blocked = false;  // the socket accepts no more now
};

// Removes the sent bytes from `outgoing`. `what` names the connection in the error. Never blocks.
inline Result<SentBytes> send_some(int fd, std::string& outgoing, std::string_view what) {
  SentBytes sent;
  while (sent.bytes < outgoing.size()) {
    const ssize_t n =
        ::send(fd, outgoing.data() + sent.bytes, outgoing.size() - sent.bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    sent.is_blocked = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (n < 0 && !sent.is_blocked) return errno_error(errno, what);
    if (n < 0) break;
    sent.bytes += static_cast<std::size_t>(n);
  }
  outgoing.erase(0, sent.bytes);
  return sent;
}

}  // namespace muster::base
