// Carries bytes both ways between a TLS connection and a local stream socket, until both directions have ended or
// either side is gone. One direction may end before the other. Never blocks.
// Thread: one at a time, with SIGPIPE ignored.
//
//   TlsPump pump(std::move(stream), std::move(local_end));   // after the handshake
//   for (pollfd fds[2];;) {
//     if (!pump.step()) break;
//     pump.prepare(fds[0], fds[1]);
//     poll(fds, 2, pump.has_more() ? 0 : -1);
//   }
#pragma once

#include <poll.h>

#include <string>

#include "base/tls.h"
#include "base/unique_fd.h"

namespace muster::base {

class TlsPump {
 public:
  TlsPump(TlsStream stream, UniqueFd local);

  // Sets the events to poll before the next step.
  void prepare(pollfd& remote, pollfd& local) const;
  // Moves the available bytes, at most a few hundred KiB in each direction. False when the pump has ended; destroy it
  // then.
  bool step();
  // True if the last step left bytes that can move at once, which poll() may not report.
  bool has_more() const { return has_more_; }

 private:
  // Moves as many bytes of one direction as can move. Returns whether any moved.
  bool to_remote();
  bool to_local();
  void read_remote();
  void check_for_hang_up();

  TlsStream stream_;
  UniqueFd local_;
  std::string outgoing_;  // read from the local socket
  std::string incoming_;  // read from the connection
  bool has_local_ended_ = false;
  bool is_local_gone_ = false;  // the local reader has closed its end
  bool has_remote_ended_ = false;
  bool is_remote_gone_ = false;
  bool has_sent_end_ = false;    // sent to the remote side
  bool has_passed_end_ = false;  // passed to the local side
  bool wants_to_write_ = false;  // the connection accepts no more bytes now
  bool has_more_ = false;
};

}  // namespace muster::base
