// A bounded ring of encoded output frames: those not yet written to the connection, and those written but not yet
// acknowledged, which are sent again after a reconnect. A frame lies in one piece, so a pipe can be read straight into
// the ring and the ring be written straight to TLS. Owned by the sender's thread; no I/O here but that of its memory.
//
// Frames lie behind each other in a few runs. A run that meets another one or the end of the memory is continued
// wherever there is room; only when there is none the memory grows. How long a frame is, its own header says.
//
// A launcher that has lost what it had acknowledged resumes below that: a Gap (proto/output_frame.h) then goes ahead of
// the first frame that is left, and Finish once more when it was among those.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "agent/io/ring_memory.h"
#include "base/status.h"
#include "proto/output_frame.h"

namespace muster::agent::inline io {

class FrameRing {
 public:
  explicit FrameRing(std::size_t capacity) : FrameRing(make_heap_memory(capacity)) {}
  explicit FrameRing(std::unique_ptr<RingMemory> memory) : memory_(std::move(memory)) {}

  // Room for a frame with up to `payload` bytes: where the payload is to be put. Null: not now. Stays valid until the
  // next call of any method that is not const.
  char* reserve(std::size_t payload);
  // Makes the reserved room a frame: header.length payload bytes are in place; the sequence number is set here.
  void commit(proto::OutputHeader header);

  // Bytes to write next: a contiguous run, perhaps of many frames; empty when all is written.
  std::string_view unsent() const;
  void mark_sent(std::size_t bytes);

  // INVALID_ARGUMENT: a number that was never sent, or that goes behind what the launcher has.
  base::Status acknowledge(std::uint64_t sequence);
  // A new connection: acknowledges, then starts again with the first frame that is left. INVALID_ARGUMENT: a number
  // that no frame has had.
  base::Status resume_after(std::uint64_t sequence);

  bool is_empty() const { return frames_ == 0; }
  std::uint64_t bytes_committed() const { return committed_; }  // since the beginning
  std::size_t frames() const { return frames_; }

 private:
  struct Run {
    std::size_t begin = 0;  // of its first frame
    std::size_t end = 0;
  };
  std::size_t room_behind(std::size_t place) const;
  std::size_t find_room(std::size_t size);
  std::size_t frame_size(std::size_t offset) const;
  std::size_t size_of_first(std::uint64_t count) const;
  void drop(std::uint64_t count);
  void tell_gap();

  const std::unique_ptr<RingMemory> memory_;
  std::deque<Run> runs_;            // of frames that are not acknowledged, oldest first; none is empty
  std::size_t frames_ = 0;          // in them
  std::uint64_t acknowledged_ = 0;  // the first frame has the next number
  std::uint64_t taken_ = 0;         // what the launcher has said last; less than acknowledged_ after a loss there
  std::uint64_t dropped_data_ = 0;  // bytes of Data up to acknowledged_
  bool has_dropped_finish_ = false;
  std::string ahead_;           // to be sent before the frames: what tells of a gap
  std::size_t ahead_sent_ = 0;  // bytes of it that are written
  std::size_t sent_ = 0;        // bytes that are written, from the first frame on
  std::uint64_t committed_ = 0;
  std::size_t reserved_ = 0;  // offset of the reservation
};

}  // namespace muster::agent::io
