// A conversation with another program over a socket or a pipe, with limits on its time and on its bytes. The other
// program may answer nothing, or without end.
//
// Thread: single-threaded. Calls block until the deadline at most.
// Errors: DEADLINE_EXCEEDED at the deadline; RESOURCE_EXHAUSTED if the other side sends more than the limit;
// UNAVAILABLE if it closes too early, or cannot be reached. After an error the stream is unusable.
//
//   MUSTER_ASSIGN_OR_RETURN(LimitedStream stream, LimitedStream::connect(address.get(), address.size, limits));
//   MUSTER_RETURN_IF_ERROR(stream.send("STATUS\n"));
//   MUSTER_ASSIGN_OR_RETURN(const std::string report, stream.read_to_end());
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::inline evidence {

struct StreamLimits {
  std::chrono::steady_clock::time_point deadline;
  std::size_t bytes = 4u << 20;  // that the other side may send in all
};

class LimitedStream {
 public:
  // Connects to an address of IP or to a Unix socket.
  static base::Result<LimitedStream> connect(const sockaddr* address, socklen_t size, const StreamLimits& limits);
  // `fd` is a socket or the reading end of a pipe.
  static base::Result<LimitedStream> adopt(base::UniqueFd fd, const StreamLimits& limits);

  base::Status send(std::string_view bytes);
  // Returns the next line without its end.
  base::Result<std::string> read_line();
  // Returns all bytes until the other side closes.
  base::Result<std::string> read_to_end();
  // Returns exactly that many bytes.
  base::Result<std::string> read_exactly(std::size_t size);

  int fd() const { return fd_.get(); }

 private:
  LimitedStream(base::UniqueFd fd, const StreamLimits& limits) : fd_(std::move(fd)), limits_(limits) {}

  base::Status wait_for(short events) const;
  // Appends what arrives to rest_. Sets is_ended_ if the other side has closed.
  base::Status read_some();

  base::UniqueFd fd_;
  StreamLimits limits_;
  std::string rest_;  // read, but not yet returned
  std::size_t received_ = 0;
  bool is_ended_ = false;
};

}  // namespace muster::agent::evidence
