// Tells by its first bytes what has connected to a port of agents: an agent itself, or a relay.
//
// Owner, thread: the I/O thread that has accepted the socket. It never blocks.
#pragma once

#include <string>

#include "base/unique_fd.h"

namespace muster::launcherd::inline relays {

class FirstBytes {
 public:
  enum class Peer {
    kUnknown,  // more bytes are needed
    kAgent,    // no byte has been read
    kRelay,    // the relay's hello has been read
    kGone,     // it has closed the connection, or is neither
  };

  explicit FirstBytes(base::UniqueFd fd) : fd_(std::move(fd)) {}

  // Call it when the socket is readable.
  Peer read();
  int fd() const { return fd_.get(); }
  base::UniqueFd take() { return std::move(fd_); }

 private:
  base::UniqueFd fd_;
  std::string hello_;  // the bytes of kRelayHello that have arrived
};

}  // namespace muster::launcherd::relays
