// One connection on the launcher's side of the output path: handshake, Hello, frames in, Resume and Ack out. Owned and
// called by the hub's thread; never blocks. What a frame means is the hub's business.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "base/tls.h"
#include "proto/output_frame.h"

namespace muster::launcherd::inline output {

// Room to read frames into, shared by all connections of a hub.
struct ReadScratch {
  static constexpr std::size_t kRound = 256 * 1024;  // read per turn, so that all connections get theirs
  static constexpr std::size_t kSize = proto::kMaxOutputPayload + proto::kOutputHeaderSize + kRound;
  std::unique_ptr<char[]> bytes{new char[kSize]};
};

class HubConnection {
 public:
  HubConnection(const base::TlsContext& tls, base::UniqueFd fd, base::MonotonicTime hello_deadline)
      : stream_(tls, std::move(fd)), hello_deadline_(hello_deadline) {}

  // One turn. `on_frame` is called for each whole frame; its error ends the turn and is returned. More may be waiting
  // when has_more() is true. UNAVAILABLE: the peer closed or the connection was cut.
  base::Status serve(ReadScratch* scratch, const std::function<base::Status(const proto::OutputFrame&)>& on_frame);

  // Queues a frame without payload (Resume, Ack) and writes what the socket takes now.
  base::Status send(proto::OutputKind kind, std::uint64_t sequence);
  base::Status write_pending();

  bool has_more() const { return has_more_; }
  bool wants_write() const { return wants_write_; }
  bool has_unsent() const { return !outgoing_.empty(); }
  int fd() const { return stream_.fd(); }
  std::string peer_identity() const { return stream_.peer_identity(); }
  base::MonotonicTime hello_deadline() const { return hello_deadline_; }

  int flow = -1;                    // whose it is, after its Hello was accepted
  std::uint64_t acknowledged = 0;   // the last number that send() was given
  std::uint32_t polled_events = 0;  // as the hub's epoll has it

 private:
  base::TlsStream stream_;
  const base::MonotonicTime hello_deadline_;
  bool is_established_ = false;
  bool has_more_ = false;
  bool wants_write_ = false;
  std::string partial_;   // the beginning of a frame whose rest is still to come
  std::string outgoing_;  // what the socket did not take yet
};

}  // namespace muster::launcherd::output
