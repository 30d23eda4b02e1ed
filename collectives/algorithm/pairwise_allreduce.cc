// Every rank sends slice j to rank j. Rank j reduces all inputs of it in one go, in rank order, and sends the result to
// all. Between two ranks each direction is one stream: [input of the peer's slice][result of the own slice]. Results
// are sent as far as all inputs have arrived.
//
// In place: a slice is overwritten only by results that depend on its bytes, which have been sent by then.
#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "collectives/algorithm/allreduce.h"
#include "collectives/algorithm/slices.h"

namespace muster::collectives::inline algorithm {
namespace {

// A large vector moves in pieces, which limits the memory for the others' inputs to this size.
constexpr std::size_t kPairPiece = 8 << 20;
// The least number of bytes that are reduced at once, except at the end.
constexpr std::size_t kPairSegment = 64 << 10;

class Pairwise {
 public:
  // Reduces the bytes [begin, begin + size) of the vectors.
  Pairwise(Exchange& exchange, const ReduceTask& reduction, std::size_t begin, std::size_t size)
      : reduction_(reduction),
        ranks_(exchange.size()),
        rank_(exchange.rank()),
        in_(reduction.in() + begin),
        out_(reduction.out() + begin),
        size_(size),
        mine_(slice(rank_)),
        scratch_(exchange.scratch(padded(mine_.size) * static_cast<std::size_t>(ranks_))),
        operands_(exchange.operands()) {}

  base::Status run(Exchange& exchange, const Operation& operation) {
    exchange.begin(operation, Algorithm::kPairwise);
    lanes_.reserve(static_cast<std::size_t>(ranks_));
    for (int step = 1; step < ranks_; ++step) {
      Lane& lane = lanes_.emplace_back();
      lane.peer = (rank_ + step) % ranks_;
      lane.slice = slice(lane.peer);
      MUSTER_ASSIGN_OR_RETURN(lane.to, exchange.open_send(lane.peer, lane.slice.size + mine_.size));
      MUSTER_ASSIGN_OR_RETURN(lane.from, exchange.open_receive(lane.peer, lane.slice.size + mine_.size));
    }
    return exchange.run([this] {
      reduce_arrived();
      for (const Lane& lane : lanes_) {
        if (lane.from->needs_more()) receive(lane);
        if (lane.to->needs_more()) send(lane);
      }
    });
  }

 private:
  struct Lane {
    int peer = 0;
    Slice slice;  // the peer's slice
    Outgoing* to = nullptr;
    Incoming* from = nullptr;
  };

  Slice slice(int rank) const { return slice_of(size_, ranks_, rank); }
  std::byte* input_of(int peer) const { return scratch_.data() + padded(mine_.size) * static_cast<std::size_t>(peer); }

  void receive(const Lane& lane) {
    const bool is_input = lane.from->received() < mine_.size;
    lane.from->provide(is_input ? std::span(input_of(lane.peer), mine_.size)
                                : std::span(out_ + lane.slice.begin, lane.slice.size));
  }

  void send(const Lane& lane) {
    const std::size_t sent = lane.to->sent();
    if (sent < lane.slice.size) {
      lane.to->provide({in_ + lane.slice.begin, lane.slice.size});
    } else if (const std::size_t results = sent - lane.slice.size; results < reduced_) {
      lane.to->provide({out_ + mine_.begin + results, reduced_ - results});
    }
  }

  void reduce_arrived() {
    if (reduced_ == mine_.size) return;
    std::size_t arrived = mine_.size;
    for (const Lane& lane : lanes_) arrived = std::min<std::size_t>(arrived, lane.from->received());
    if (arrived < mine_.size) arrived = arrived / kPairSegment * kPairSegment;
    if (arrived <= reduced_) return;
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::byte* const begin = rank == rank_ ? in_ + mine_.begin : input_of(rank);
      operands_[static_cast<std::size_t>(rank)] = begin + reduced_;
    }
    reduce(reduction_.type, reduction_.op, operands_, out_ + mine_.begin + reduced_,
           (arrived - reduced_) / reduction_.element(), reduction_.scale);
    reduced_ = arrived;
  }

  const ReduceTask& reduction_;
  const int ranks_;
  const int rank_;
  const std::byte* const in_;
  std::byte* const out_;
  const std::size_t size_;
  const Slice mine_;
  const std::span<std::byte> scratch_;
  const std::span<const void*> operands_;
  std::vector<Lane> lanes_;
  std::size_t reduced_ = 0;  // bytes of the own slice
};

}  // namespace

base::Status pairwise_allreduce(Exchange& exchange, const Operation& operation, const ReduceTask& reduction) {
  if (exchange.size() == 1) return one_shot_allreduce(exchange, operation, reduction);
  std::size_t begin = 0;
  do {
    const std::size_t size = std::min(kPairPiece, reduction.bytes() - begin);
    MUSTER_RETURN_IF_ERROR(Pairwise(exchange, reduction, begin, size).run(exchange, operation));
    begin += size;
  } while (begin < reduction.bytes());
  return base::ok_status();
}

}  // namespace muster::collectives::algorithm
