// One end of a connection that carries session messages (session_frame.h). It holds a non-blocking stream socket,
// partly received messages, and bytes that the socket has not accepted yet. The caller polls it, with a loop or
// without. It never waits and has no thread.
//
// Thread: read() may run on another thread than send() and flush(); each half on one thread at a time.
// Errors: after an error the stream is unusable.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "base/status.h"
#include "base/unique_fd.h"
#include "rendezvous/session_frame.h"

namespace muster::rendezvous {

class SessionStream {
 public:
  // Called for each message. If it returns an error, read() ends with that error.
  using Take = std::function<base::Status(SessionMessage message)>;

  // `max_queued_bytes` limits what may wait for a peer that does not read.
  SessionStream(base::UniqueFd socket, std::size_t max_queued_bytes);

  int fd() const { return socket_.get(); }

  // Reads a bounded part of the received bytes. False if the peer has closed its end between two messages. UNAVAILABLE
  // if the connection is broken. INVALID_ARGUMENT if the bytes break the protocol.
  base::Result<bool> read(const Take& take);

  // Sends as much as the socket accepts now. The rest waits for flush(), see wants_write(). RESOURCE_EXHAUSTED if too
  // much waits.
  base::Status send(const SessionMessage& message);
  base::Status flush();
  bool wants_write() const { return sent_ < unsent_.size(); }

 private:
  base::UniqueFd socket_;
  const std::size_t max_queued_bytes_;
  SessionReader reader_;
  std::string unsent_;
  std::size_t sent_ = 0;  // bytes of unsent_ that were sent
};

}  // namespace muster::rendezvous
