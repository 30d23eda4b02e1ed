#include "launcherd/enrol/enrolled_stream.h"

#include <sys/socket.h>

#include <cerrno>

#include "launcherd/bootstrap/marker_scanner.h"

namespace muster::launcherd::inline enrol {

using base::Code;

base::Status send_all(int stream, std::string_view bytes, const Waiter& waiter) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(stream, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
      continue;
    }
    if (count < 0 && errno != EAGAIN && errno != EINTR) return base::errno_error(errno, "write to the agent");
    const pollfd writable{stream, POLLOUT, 0};
    MUSTER_RETURN_IF_ERROR(waiter.wait({&writable, 1}));
  }
  return base::ok_status();
}

base::Status await_marker_line(int stream, const std::string& agent_id, const std::string& name, const Waiter& waiter) {
  MarkerScanner scanner(agent_id);
  while (scanner.state() == MarkerScanner::State::kSearching) {
    const pollfd readable{stream, POLLIN, 0};
    MUSTER_RETURN_IF_ERROR(waiter.wait({&readable, 1}));
    char byte = 0;  // read one byte at a time, because bytes after the line belong to the caller
    const ssize_t count = ::recv(stream, &byte, 1, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count <= 0) return {Code::kUnavailable, "its agent enrolled and ended before it answered"};
    scanner.feed({&byte, 1});
  }
  if (scanner.state() == MarkerScanner::State::kFound) return base::ok_status();
  return base::failed_precondition("the program that enrolled as {} is not an agent of this build", name);
}

}  // namespace muster::launcherd::enrol
