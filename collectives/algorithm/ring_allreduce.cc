// Each rank has one stream to its right neighbour and one from its left. The vector is cut into as many slices as there
// are ranks; in step s a rank sends slice rank - s and receives slice rank - 1 - s (modulo the number of ranks p), for
// s = 0 … 2p - 3. In the first p - 1 steps what comes is a partial result, to which the own input is added; in the
// others it is a final one. What is sent in step s + 1 is what came in step s: behind its first slice, the stream to
// the right is the stream from the left after its reduction, and may go on as far as that has come. So nothing waits
// for the end of a step.
//
// In place: a slice is overwritten by what depends on the very bytes that had been sent of it.
#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "collectives/algorithm/allreduce.h"
#include "collectives/algorithm/slices.h"

namespace muster::collectives {
namespace {

// What is reduced at once: stays in the second-level cache, with both operands and the result.
constexpr std::size_t kSegment = 128 << 10;

// Where a stream is: in which step, and how far in its slice.
class Cursor {
 public:
  Cursor(std::size_t bytes, int ranks, int first_slice) : bytes_(bytes), ranks_(ranks), first_slice_(first_slice) {
    skip_empty();
  }
  int step() const { return step_; }
  bool is_at_end() const { return step_ == steps(); }
  std::size_t position() const { return slice(step_).begin + offset_; }
  std::size_t left_in_slice() const { return slice(step_).size - offset_; }
  void advance(std::size_t bytes) {
    offset_ += bytes;
    skip_empty();
  }
  std::size_t total() const {
    std::size_t sum = 0;
    for (int step = 0; step < steps(); ++step) sum += slice(step).size;
    return sum;
  }
  std::size_t first_slice() const { return slice(0).size; }

 private:
  int steps() const { return 2 * (ranks_ - 1); }
  Slice slice(int step) const { return slice_of(bytes_, ranks_, (first_slice_ - step + 2 * ranks_) % ranks_); }
  void skip_empty() {
    while (!is_at_end() && left_in_slice() == 0) {
      ++step_;
      offset_ = 0;
    }
  }

  std::size_t bytes_;
  int ranks_;
  int first_slice_;
  int step_ = 0;
  std::size_t offset_ = 0;
};

class Ring {
 public:
  Ring(Exchange& exchange, const ReduceTask& reduction)
      : reduction_(reduction),
        ranks_(exchange.size()),
        rank_(exchange.rank()),
        sending_(reduction.bytes(), ranks_, rank_),
        receiving_(reduction.bytes(), ranks_, (rank_ - 1 + ranks_) % ranks_),
        scratch_(exchange.scratch(kSegment)) {}

  base::Status run(Exchange& exchange, const Operation& operation) {
    exchange.begin(operation, Algorithm::kRing);
    MUSTER_ASSIGN_OR_RETURN(to_right_, exchange.open_send((rank_ + 1) % ranks_, sending_.total()));
    MUSTER_ASSIGN_OR_RETURN(from_left_, exchange.open_receive((rank_ - 1 + ranks_) % ranks_, receiving_.total()));
    return exchange.run([this] {
      receive();
      send();
    });
  }

 private:
  bool is_reducing() const { return receiving_.step() < ranks_ - 1; }

  void receive() {
    if (segment_ > 0 && from_left_->received() == done_ + segment_) take_segment();
    if (!from_left_->needs_more()) return;
    segment_ = std::min(kSegment, receiving_.left_in_slice());
    from_left_->give(is_reducing() ? scratch_.first(segment_)
                                   : std::span(reduction_.out() + receiving_.position(), segment_));
  }

  void take_segment() {
    if (is_reducing()) {
      const std::size_t at = receiving_.position();
      const std::array<const void*, 2> operands{scratch_.data(), reduction_.in() + at};
      const bool is_final = receiving_.step() == ranks_ - 2;
      reduce(reduction_.type, reduction_.op, operands, reduction_.out() + at, segment_ / reduction_.element(),
             is_final ? scale_of_result(reduction_.scale) : Scale{});
    }
    receiving_.advance(segment_);
    done_ += segment_;
    segment_ = 0;
  }

  void send() {
    if (!to_right_->needs_more()) return;
    // Final bytes go on as they come, partial ones when they have been reduced.
    const std::size_t come = receiving_.is_at_end() || is_reducing() ? done_ : from_left_->received();
    const std::size_t ready = sending_.first_slice() + come - to_right_->sent();
    if (ready == 0) return;
    const std::size_t now = std::min(ready, sending_.left_in_slice());
    const std::byte* const from = sending_.step() == 0 ? reduction_.in() : reduction_.out();
    to_right_->give({from + sending_.position(), now});
    sending_.advance(now);
  }

  const ReduceTask& reduction_;
  const int ranks_;
  const int rank_;
  Cursor sending_;
  Cursor receiving_;
  std::span<std::byte> scratch_;
  Outgoing* to_right_ = nullptr;
  Incoming* from_left_ = nullptr;
  std::size_t segment_ = 0;  // bytes that are being received
  std::size_t done_ = 0;     // bytes that have been received and reduced
};

}  // namespace

base::Status ring_allreduce(Exchange& exchange, const Operation& operation, const ReduceTask& reduction) {
  if (exchange.size() == 1) return one_shot_allreduce(exchange, operation, reduction);
  ReduceTask scaled = reduction;
  if (reduction.scale.before != 1) {
    const std::array<const void*, 1> own{reduction.input};
    reduce(reduction.type, reduction.op, own, reduction.output, reduction.count, scale_of_inputs(reduction.scale));
    scaled.input = reduction.output;
  }
  return Ring(exchange, scaled).run(exchange, operation);
}

}  // namespace muster::collectives
