// The connection of one child of a relay, and its stream to the launcher.
//
// Owner, thread: the relay's thread. It never blocks.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "proto/relay_frame.h"

namespace muster::agent::inline relay {

class RelayChild {
 public:
  enum class Phase {
    kHello,    // it has not said which service it wants
    kWaits,    // for a connection to the launcher
    kOpen,     // bytes flow
    kClosing,  // the launcher has closed the stream; the child gets the rest
  };

  RelayChild(base::UniqueFd fd, base::MonotonicTime deadline_in) : deadline(deadline_in), fd_(std::move(fd)) {}

  // Reads the bytes of the hello. True when it is complete. INVALID_ARGUMENT if it is none; UNAVAILABLE: the child has
  // gone.
  base::Result<bool> read_hello();
  // Reads as many bytes as the launcher has granted, at most one frame, and appends a Data frame to `outgoing`. False:
  // nothing was there.
  base::Result<bool> forward(std::string& outgoing);
  // Takes bytes for the child. INVALID_ARGUMENT if the launcher sends more than was granted.
  base::Status take(std::string_view bytes);
  // Writes as much as the child accepts. Appends a Credit frame to `outgoing` when it has accepted enough.
  base::Status write_some(std::string& outgoing);
  // Answers the bytes of an echo.
  base::Status echo();

  int fd() const { return fd_.get(); }
  bool may_read() const { return phase == Phase::kHello || (phase == Phase::kOpen && credit > 0); }
  bool has_unsent() const { return !to_child_.empty(); }
  proto::ViaService service() const { return service_; }

  Phase phase = Phase::kHello;
  std::uint32_t stream = 0;                    // in the connection to the launcher
  std::uint32_t credit = proto::kRelayWindow;  // bytes that may be sent to the launcher
  bool is_proven = false;
  bool wants_write = false;
  std::uint32_t polled = 0;
  base::MonotonicTime deadline;  // of this phase, until it is proven

 private:
  base::UniqueFd fd_;
  proto::ViaService service_ = proto::ViaService::kControl;
  std::string hello_;
  std::string to_child_;
  std::uint32_t to_grant_ = 0;
};

}  // namespace muster::agent::relay
