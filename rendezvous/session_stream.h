// One end of a connection that carries session messages (session_frame.h): a non-blocking stream socket, what has come
// in part, and what the socket has not taken yet. For whoever polls it, with a loop or without.
//
// read() may be called by another thread than send() and flush(); each of both halves by one thread at a time. After an
// error it is of no more use. Does no waiting and keeps no thread.
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
  // An error from it ends read().
  using Take = std::function<base::Status(SessionMessage message)>;

  // `max_queued_bytes`: what may wait for a peer that does not read.
  SessionStream(base::UniqueFd socket, std::size_t max_queued_bytes);

  int fd() const { return socket_.get(); }

  // What has come, a bounded part of it. False: the peer has closed its end, between two messages. UNAVAILABLE: the
  // connection is broken. INVALID_ARGUMENT: that is not the protocol.
  base::Result<bool> read(const Take& take);

  // As much as the socket takes now; the rest waits for flush(), see wants_write(). RESOURCE_EXHAUSTED: too much waits.
  base::Status send(const SessionMessage& message);
  base::Status flush();
  bool wants_write() const { return sent_ < unsent_.size(); }

 private:
  base::UniqueFd socket_;
  const std::size_t max_queued_bytes_;
  SessionReader reader_;
  std::string unsent_;
  std::size_t sent_ = 0;  // of unsent_
};

}  // namespace muster::rendezvous
