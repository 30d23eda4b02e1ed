// A bounded ring of encoded output frames. It holds frames that are not yet written to the connection, and frames
// that are written but not acknowledged. The latter are sent again after a reconnect.
// A frame lies in one piece. So a pipe can be read straight into the ring, and the ring can be written straight to
// TLS.
//
// Owner and thread: the sender's thread. The only I/O here is that of its memory.
//
// Layout: frames lie one behind the other in a few runs. If a run meets another run or the end of the memory, a new
// run begins wherever there is room. The memory grows only if there is no room. A frame's header contains its length.
//
// Loss: a launcher that has lost acknowledged frames resumes at a lower number. The ring then sends a Gap
// (proto/output_frame.h) before the first frame that is left. If Finish was among the lost frames, the ring sends it
// again, too.
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

  // Reserves room for a frame with up to `payload` bytes. Returns where to put the payload, or nullptr if there is no
  // room now. The pointer is valid until the next call of a method that is not const.
  char* reserve(std::size_t payload);
  // Makes a frame of the reserved room. header.length payload bytes must be in place; this call sets the sequence
  // number.
  void commit(proto::OutputHeader header);

  // Returns the bytes to write next: a contiguous piece that may hold many frames. Empty if all is written.
  std::string_view unsent() const;
  void mark_sent(std::size_t bytes);

  // INVALID_ARGUMENT: the number was never sent, or is lower than what the launcher has.
  base::Status acknowledge(std::uint64_t sequence);
  // A new connection is up: acknowledges up to `sequence`, then sends again from the first frame that is left.
  // INVALID_ARGUMENT: no frame has had this number.
  base::Status resume_after(std::uint64_t sequence);

  bool is_empty() const { return frames_ == 0; }
  std::uint64_t bytes_committed() const { return committed_; }  // since the beginning
  std::size_t frames() const { return frames_; }

 private:
  struct Run {
    std::size_t begin = 0;  // offset of the run's first frame
    std::size_t end = 0;
  };
  std::size_t room_behind(std::size_t place) const;
  std::size_t find_room(std::size_t size);
  std::size_t frame_size(std::size_t offset) const;
  std::size_t size_of_first(std::uint64_t count) const;
  void drop(std::uint64_t count);
  void report_gap();

  const std::unique_ptr<RingMemory> memory_;
  std::deque<Run> runs_;            // runs of unacknowledged frames, oldest first; none is empty
  std::size_t frames_ = 0;          // number of frames in all runs
  std::uint64_t acknowledged_ = 0;  // the first frame in the ring has the next number
  // The number that the launcher acknowledged last. It is less than acknowledged_ if the launcher has lost frames.
  std::uint64_t received_ = 0;
  std::uint64_t dropped_data_ = 0;  // payload bytes of Data frames up to acknowledged_
  bool has_dropped_finish_ = false;
  std::string ahead_;           // sent before the frames; it describes a gap
  std::size_t ahead_sent_ = 0;  // bytes of ahead_ that are written
  std::size_t sent_ = 0;        // bytes of frames that are written, from the first frame on
  std::uint64_t committed_ = 0;
  std::size_t reserved_ = 0;  // offset of the reserved room
};

}  // namespace muster::agent::io
