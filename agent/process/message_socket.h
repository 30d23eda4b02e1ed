// Messages with file descriptors over a non-blocking stream socket between agent and warden.
// Sending never blocks, so that neither side can stop the other. Bytes that the peer does not take yet wait in this
// object.
//
// Owner: one end of the socket.
// Thread: single-threaded.
//
// Example:
//   socket.send(payload, {std::move(fd)});  socket.flush();
//   for (auto& message : *socket.receive()) …
#pragma once

#include <deque>
#include <limits>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::inline process {

struct SocketMessage {
  std::string payload;
  std::vector<base::UniqueFd> fds;  // at most 8
};

class MessageSocket {
 public:
  // `max_payload` limits the messages of a peer that is not trusted. A longer one is an error.
  explicit MessageSocket(base::UniqueFd socket, std::size_t max_payload = std::numeric_limits<std::size_t>::max())
      : socket_(std::move(socket)), max_payload_(max_payload) {}

  int fd() const { return socket_.get(); }
  void close() { socket_.reset(); }
  base::UniqueFd release() { return std::move(socket_); }

  // Queues a message; flush() sends what the socket takes. UNAVAILABLE: the peer is gone, and queued messages are
  // lost.
  void send(std::string payload, std::vector<base::UniqueFd> fds = {});
  base::Status flush();
  bool wants_to_write() const { return !outgoing_.empty(); }

  // Returns all whole messages that have arrived. Afterwards peer_gone() is true if no more can come.
  // INVALID_ARGUMENT: a message is too long.
  base::Result<std::vector<SocketMessage>> receive();
  bool peer_gone() const { return peer_gone_; }

 private:
  struct Outgoing {
    std::string bytes;
    std::size_t sent = 0;
    std::vector<base::UniqueFd> fds;
  };
  base::Result<bool> send_some(Outgoing& message);
  base::Result<bool> receive_some();
  base::Status read_messages(std::vector<SocketMessage>& into);

  base::UniqueFd socket_;
  std::size_t max_payload_;
  std::deque<Outgoing> outgoing_;
  std::string incoming_;
  std::deque<base::UniqueFd> incoming_fds_;
  bool peer_gone_ = false;
};

}  // namespace muster::agent::process
