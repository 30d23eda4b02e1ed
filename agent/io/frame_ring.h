// A bounded ring of encoded output frames: those not yet written to the connection, and those written but not yet
// acknowledged, which are sent again after a reconnect. A frame never wraps around, so a pipe can be read straight into
// the ring and the ring be written straight to TLS. Owned by the sender's thread; no I/O here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>

#include "base/status.h"
#include "proto/output_frame.h"

namespace muster::agent {

class FrameRing {
 public:
  explicit FrameRing(std::size_t capacity);

  // Room for a frame with up to `payload` bytes: where the payload is to be put. Null: not now. Stays valid until the
  // next call of any method that is not const.
  char* reserve(std::size_t payload);
  // Makes the reserved room a frame: header.length payload bytes are in place; the sequence number is set here.
  void commit(proto::OutputHeader header);

  // Bytes to write next: a contiguous run, perhaps of many frames; empty when all is written.
  std::string_view unsent() const;
  void mark_sent(std::size_t bytes);

  // INVALID_ARGUMENT: a number that was never sent, or that goes back.
  base::Status acknowledge(std::uint64_t sequence);
  // A new connection: acknowledges, then starts again with the first frame that is left.
  base::Status resume_after(std::uint64_t sequence);

  bool is_empty() const { return frames_.empty(); }
  std::uint64_t bytes_committed() const { return committed_; }  // since the beginning
  std::size_t frames() const { return frames_.size(); }

 private:
  struct Frame {
    std::size_t offset;
    std::size_t size;
  };
  bool is_written(const Frame& frame) const;
  void drop(std::uint64_t count);

  const std::size_t capacity_;
  const std::unique_ptr<char[]> bytes_;
  std::deque<Frame> frames_;        // not acknowledged, oldest first
  std::uint64_t acknowledged_ = 0;  // frames_.front() has the next number
  std::size_t tail_ = 0;            // end of the newest frame
  std::size_t wrap_ = 0;  // where the run before the last jump to 0 ends; meaningful while the ring is wrapped
  bool is_wrapped_ = false;
  std::size_t sent_ = 0;          // all before this place (in ring order) is written
  bool is_sent_wrapped_ = false;  // sent_ has made the jump, too
  std::uint64_t committed_ = 0;
  std::size_t reserved_ = 0;  // offset of the reservation
};

}  // namespace muster::agent
