// HubConnection is the launcher's end of one output connection. It does the handshake, reads Hello and frames, and
// writes Resume and Ack. The hub interprets the frames.
// Owner, thread: the hub's thread owns and calls it. It never blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "base/tls.h"
#include "proto/output_frame.h"

namespace muster::launcherd::inline output {

// The buffer into which frames are read. All connections of a hub share it.
struct ReadScratch {
  // Bytes read per turn. The limit gives every connection its turn.
  static constexpr std::size_t kRound = 256 * 1024;
  static constexpr std::size_t kSize = proto::kMaxOutputPayload + proto::kOutputHeaderSize + kRound;
  std::unique_ptr<char[]> bytes{new char[kSize]};
};

class HubConnection {
 public:
  explicit HubConnection(base::TlsStream stream) : stream_(std::move(stream)) {}

  // Serves one turn. Calls `on_frame` for each whole frame. An error of `on_frame` ends the turn, and serve() returns
  // it. Afterwards has_more() says whether more data may be waiting. UNAVAILABLE: the peer closed the connection, or it
  // was cut.
  base::Status serve(ReadScratch* scratch, const std::function<base::Status(const proto::OutputFrame&)>& on_frame);

  // Queues a frame without payload (Resume, Ack). Writes as much as the socket accepts now.
  base::Status send(proto::OutputKind kind, std::uint64_t sequence);
  base::Status write_pending();

  bool has_more() const { return has_more_; }
  bool wants_write() const { return wants_write_; }
  bool has_unsent() const { return !outgoing_.empty(); }
  int fd() const { return stream_.fd(); }  // -1 if it comes through a relay
  std::string peer_identity() const { return stream_.peer_identity(); }

  std::uint64_t relay = 0;          // id of the relay's connection; 0 if it has a socket of its own
  std::uint32_t relay_stream = 0;   // its stream there
  int flow = -1;                    // the flow that this connection serves; -1 until its Hello was accepted
  std::uint64_t acknowledged = 0;   // the last number passed to send()
  std::uint32_t polled_events = 0;  // the events that the hub's epoll watches

 private:
  base::TlsStream stream_;
  bool is_established_ = false;
  bool has_more_ = false;
  bool wants_write_ = false;
  std::string partial_;   // the beginning of an incomplete frame
  std::string outgoing_;  // bytes that the socket has not accepted yet
};

}  // namespace muster::launcherd::output
