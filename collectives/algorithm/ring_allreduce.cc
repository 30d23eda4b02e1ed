// The ring allreduce. Read Cursor first, which holds the position of a stream, then the class that drives the two
// streams.
//
// Each rank has one stream to its right neighbour and one from its left. The vector moves in pieces, each cut into as
// many slices as there are ranks. In step s of a piece, a rank sends slice rank - s and receives slice rank - 1 - s.
// Both are modulo the number of ranks p, for s = 0 … 2p - 3.
//
// In the first p - 1 steps a partial result arrives, to which the rank adds its own input. In the other steps a final
// result arrives. A rank sends in step s + 1 what it received in step s, as far as that has arrived. The next piece
// begins where this one ends. So a rank never waits for the end of a step or a piece. A slice is sent on while it is
// still in the cache, which is the reason for pieces.
//
// In place: a slice is overwritten only by results that depend on its bytes, which have been sent by then.
#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "collectives/algorithm/allreduce.h"
#include "collectives/algorithm/slices.h"

namespace muster::collectives::inline algorithm {
namespace {

// The bytes that are reduced at once. Both operands and the result fit the second-level cache.
constexpr std::size_t kRingSegment = 128 << 10;
// A small slice is sent on while it is in the cache. But the first bytes of a step must arrive before the last bytes of
// the step before have left, also over long distances. No constant fits both, so there are two limits.
constexpr std::size_t kLeastSlice = 512 << 10;
constexpr std::size_t kMostPieces = 32;

// The position of a stream: its piece, its step, and the offset in its slice.
class Cursor {
 public:
  Cursor(std::size_t bytes, int ranks, int first_slice)
      : bytes_(bytes),
        ranks_(ranks),
        first_slice_(first_slice),
        piece_(padded(std::max(kLeastSlice * static_cast<std::size_t>(ranks), bytes / kMostPieces))) {
    skip_empty();
  }
  bool is_at_end() const { return begin_ >= bytes_; }
  std::size_t piece() const { return begin_; }
  int step() const { return step_; }
  std::size_t offset() const { return offset_; }
  std::size_t position() const { return begin_ + slice(step_).begin + offset_; }
  std::size_t left_in_slice() const { return slice(step_).size - offset_; }
  void advance(std::size_t bytes) {
    offset_ += bytes;
    skip_empty();
  }
  // Returns the bytes of all steps of all pieces.
  std::size_t total() const {
    std::size_t sum = 0;
    for (Cursor at(bytes_, ranks_, first_slice_); !at.is_at_end(); at.advance(at.left_in_slice())) {
      sum += at.left_in_slice();
    }
    return sum;
  }

 private:
  int steps() const { return 2 * (ranks_ - 1); }
  std::size_t piece_size() const { return std::min(piece_, bytes_ - begin_); }
  Slice slice(int step) const { return slice_of(piece_size(), ranks_, (first_slice_ - step + 2 * ranks_) % ranks_); }
  void skip_empty() {
    while (!is_at_end() && left_in_slice() == 0) {
      offset_ = 0;
      if (++step_ < steps()) continue;
      step_ = 0;
      begin_ += piece_size();
    }
  }

  std::size_t bytes_;
  int ranks_;
  int first_slice_;
  std::size_t piece_;
  std::size_t begin_ = 0;  // where the piece begins
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
        scratch_(exchange.scratch(kRingSegment)) {}

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
    if (segment_ > 0 && from_left_->received() == done_ + segment_) finish_segment();
    if (!from_left_->needs_more()) return;
    segment_ = std::min(kRingSegment, receiving_.left_in_slice());
    from_left_->provide(is_reducing() ? scratch_.first(segment_)
                                      : std::span(reduction_.out() + receiving_.position(), segment_));
  }

  void finish_segment() {
    if (is_reducing()) {
      const std::size_t at = receiving_.position();
      // With two ranks, reduce the lower rank's operand first, as all other algorithms do.
      std::array<const void*, 2> operands{scratch_.data(), reduction_.in() + at};
      if (rank_ == 0) std::swap(operands[0], operands[1]);
      const bool is_final = receiving_.step() == ranks_ - 2;
      reduce(reduction_.type, reduction_.op, operands, reduction_.out() + at, segment_ / reduction_.element(),
             is_final ? scale_of_result(reduction_.scale) : Scale{});
    }
    receiving_.advance(segment_);
    done_ += segment_;
    segment_ = 0;
  }

  // Returns how many bytes of the current slice may be sent.
  std::size_t ready() const {
    if (sending_.step() == 0) return sending_.offset() + sending_.left_in_slice();
    const bool is_same =
        !receiving_.is_at_end() && receiving_.piece() == sending_.piece() && receiving_.step() == sending_.step() - 1;
    // Partial results are sent after their reduction, final ones as they arrive.
    if (is_same) return receiving_.offset() + (is_reducing() ? 0 : from_left_->received() - done_);
    const bool has_passed = receiving_.is_at_end() || receiving_.piece() > sending_.piece() ||
                            (receiving_.piece() == sending_.piece() && receiving_.step() >= sending_.step());
    return has_passed ? sending_.offset() + sending_.left_in_slice() : 0;
  }

  void send() {
    if (!to_right_->needs_more()) return;
    const std::size_t now = ready() - sending_.offset();
    if (now == 0) return;
    const std::byte* const from = sending_.step() == 0 ? reduction_.in() : reduction_.out();
    to_right_->provide({from + sending_.position(), now});
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
  std::size_t done_ = 0;     // bytes received and reduced
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

}  // namespace muster::collectives::algorithm
