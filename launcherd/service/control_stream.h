// One control channel of an agent, as ControlStreams serves it: TLS, frames, and what still waits to be sent.
//
// Owner, thread: the I/O thread of ControlStreams. It never blocks.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "base/status.h"
#include "base/tls.h"
#include "proto/control_frame.h"

namespace muster::launcherd::inline service {

class ControlStream {
 public:
  using OnFrame = std::function<void(const proto::ControlFrame&)>;

  explicit ControlStream(base::TlsStream tls) : tls_(std::move(tls)) {}

  // Serves one turn: handshake, reading, writing. Calls `on_frame` for each whole frame, and stops reading while
  // is_held_back. UNAVAILABLE: the agent has closed the stream, or it was cut.
  base::Status serve(const OnFrame& on_frame);
  void send(std::shared_ptr<const std::string> frames) { queue_.push_back(std::move(frames)); }
  base::Status write_pending();

  bool is_proven() const { return is_proven_; }
  std::string identity() const { return tls_.peer_identity(); }
  int fd() const { return tls_.fd(); }
  bool wants_write() const { return wants_write_; }
  bool has_unsent() const { return !queue_.empty() || !outgoing_.empty(); }
  bool has_more() const { return has_more_; }  // the last serve() may have left bytes

  bool is_held_back = false;   // set by the owner: read nothing
  bool is_discarding = false;  // set by the owner: read, but drop all

 private:
  base::Status read_some(const OnFrame& on_frame);
  base::Status parse(const OnFrame& on_frame);
  void fill_outgoing();

  base::TlsStream tls_;
  std::string partial_;                                  // the beginning of an incomplete frame
  std::list<std::shared_ptr<const std::string>> queue_;  // takes no memory while it is empty
  std::string outgoing_;                                 // bytes of the queue that are being sent
  bool is_proven_ = false;
  bool wants_write_ = false;
  bool has_more_ = false;
};

}  // namespace muster::launcherd::service
