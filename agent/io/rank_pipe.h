// One output pipe of one rank. It reads straight into the ring and cuts after the last line end. The rest is the
// carry, which is kept until its line is complete.
//
// Owner and thread: the sender's thread.
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

// Counts the bytes of unfinished lines over all pipes of this host. Beyond `limit`, long unfinished lines are sent in
// parts.
struct CarryBudget {
  std::size_t used = 0;
  std::size_t limit = std::size_t{12} << 20;
};

class RankPipe {
 public:
  static constexpr std::size_t kReadSize = 128 * 1024;
  static constexpr std::size_t kMaxLine = std::size_t{1} << 20;
  // A line up to this size is never cut because of the budget.
  static constexpr std::size_t kFairLine = 96 * 1024;
  static constexpr std::size_t kTailRead = 64 * 1024;

  // kLines: cut after line ends. kAsTheyCome: send each piece at once, as a terminal needs it.
  enum class Cut { kLines, kAsTheyCome };

  // An invalid fd means a stream that has ended without bytes.
  RankPipe(int rank, proto::OutputStream stream, base::UniqueFd fd, Cut cut = Cut::kLines);

  enum class Step { kMoved, kEmpty, kRingFull, kEnded };
  // Does one read(2). kEmpty: no data now. kEnded: EOF, or the limit of stop_after_pending() is reached. Then the
  // descriptor is closed, and an unfinished line may be left.
  Step read_step(FrameRing* ring, CarryBudget* budget, base::MonotonicTime now);

  // Sends the unfinished line as it is. False if the ring is full.
  bool flush_carry(FrameRing* ring, CarryBudget* budget);

  // Call it when the rank is dead and the ring full. It takes up to kTailRead bytes out of the pipe, so that tail()
  // is complete.
  void read_tail(CarryBudget* budget);

  // From now on, reads only what is in the pipe at this moment.
  void stop_after_pending();

  bool is_open() const { return fd_.valid(); }
  bool has_carry() const { return !carry_.empty(); }
  // Returns the time of the last read that brought data.
  base::MonotonicTime last_data() const { return last_data_; }
  bool has_pending() const { return pending() > 0; }
  int fd() const { return fd_.get(); }
  std::uint64_t bytes() const { return bytes_; }
  std::string tail() const { return tail_.text(); }
  std::string last_line() const { return tail_.last_line(); }

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
  std::string carry_;        // an unfinished line; after read_tail() also whole lines
  bool is_in_line_ = false;  // the beginning of the line was already sent as a part
  bool has_whole_lines_ = false;
  std::optional<std::size_t> left_;
  std::uint64_t bytes_ = 0;
  LineTail tail_;
  base::MonotonicTime last_data_{};
};

}  // namespace muster::agent::io
