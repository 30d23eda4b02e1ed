// One output pipe of one rank: read straight into the ring, cut behind the last line end, the rest kept until it is
// whole. Owned and called by the sender's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "agent/io/frame_ring.h"
#include "agent/io/line_tail.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "proto/output_frame.h"

namespace muster::agent::inline io {

// Bytes of unfinished lines over all pipes of this host. Beyond `limit` the longer ones are sent in parts.
struct CarryBudget {
  std::size_t used = 0;
  std::size_t limit = std::size_t{12} << 20;
};

class RankPipe {
 public:
  static constexpr std::size_t kReadSize = 128 * 1024;
  static constexpr std::size_t kMaxLine = std::size_t{1} << 20;
  static constexpr std::size_t kFairLine = 96 * 1024;  // never cut for the budget's sake
  static constexpr std::size_t kTailRead = 64 * 1024;

  // kLines: cut behind line ends. kAsTheyCome: each piece is sent at once, as a terminal needs it.
  enum class Cut { kLines, kAsTheyCome };

  // An invalid fd is a stream that has ended without bytes.
  RankPipe(int rank, proto::OutputStream stream, base::UniqueFd fd, Cut cut = Cut::kLines);

  enum class Step { kMoved, kEmpty, kRingFull, kEnded };
  // One read(2). kEmpty: nothing there now; kEnded: EOF, or the limit of stop_after_pending() is reached: the
  // descriptor is closed, an unfinished line may be left.
  Step read_step(FrameRing* ring, CarryBudget* budget, base::MonotonicTime now);

  // Sends the unfinished line as it is. False: the ring is full.
  bool flush_carry(FrameRing* ring, CarryBudget* budget);

  // The rank is dead and the ring full: takes up to kTailRead bytes out of the pipe, so that tail() is complete.
  void read_tail(CarryBudget* budget);

  // From now on only what lies in the pipe at this moment is read.
  void stop_after_pending();

  bool is_open() const { return fd_.valid(); }
  bool has_carry() const { return !carry_.empty(); }
  // Nothing came for this pipe since then, as far as was looked.
  base::MonotonicTime last_data() const { return last_data_; }
  bool has_pending() const { return pending() > 0; }
  int fd() const { return fd_.get(); }
  std::uint64_t bytes() const { return bytes_; }
  std::string tail() const { return tail_.text(); }

 private:
  std::size_t pending() const;
  void note(std::string_view bytes, base::MonotonicTime now);
  void keep(std::string_view rest, CarryBudget* budget);
  void clear_carry(CarryBudget* budget);
  Step close();

  const int rank_;
  const proto::OutputStream stream_;
  base::UniqueFd fd_;
  const Cut cut_;
  std::string carry_;        // an unfinished line; whole lines only after read_tail()
  bool is_in_line_ = false;  // its beginning was sent as a part
  bool has_whole_lines_ = false;
  std::optional<std::size_t> left_;
  std::uint64_t bytes_ = 0;
  LineTail tail_;  // of stderr only
  base::MonotonicTime last_data_{};
};

}  // namespace muster::agent::io
