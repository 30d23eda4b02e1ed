#include <algorithm>
#include <cstddef>
#include <span>

#include "collectives/algorithm/rooted.h"
#include "collectives/algorithm/slices.h"

namespace muster::collectives::inline algorithm {
namespace {

// A large vector moves in pieces, which limits the memory for the others' inputs to this size.
constexpr std::size_t kRootPiece = 8 << 20;

// One piece of the vectors. One rank reduces all of it, or each rank reduces the slice with its number.
class Piece {
 public:
  Piece(Exchange& exchange, const Operation& operation, const ReduceTask& reduction, std::size_t begin,
        std::size_t size)
      : exchange_(exchange), operation_(operation), reduction_(reduction), begin_(begin), size_(size) {}

  base::Status to_root(int root) {
    exchange_.begin(operation_, Algorithm::kDirect);
    if (exchange_.rank() != root) {
      MUSTER_RETURN_IF_ERROR(exchange_.send(root, input({0, size_})));
      return exchange_.run();
    }
    const std::span<std::byte> inputs = exchange_.scratch(stride(size_));
    MUSTER_RETURN_IF_ERROR(receive_inputs({0, size_}, inputs));
    MUSTER_RETURN_IF_ERROR(exchange_.run());
    reduce_inputs({0, size_}, reduction_.out() + begin_);
    return base::ok_status();
  }

  base::Status by_slices(int root) {
    const int rank = exchange_.rank();
    const Slice mine = slice(rank);
    const std::span<std::byte> scratch = exchange_.scratch(stride(mine.size) + padded(mine.size));
    std::byte* const result =
        rank == root ? reduction_.out() + begin_ + mine.begin : scratch.data() + stride(mine.size);
    exchange_.begin(operation_, Algorithm::kPairwise);
    for (int step = 1; step < exchange_.size(); ++step) {
      const int peer = (rank + step) % exchange_.size();
      MUSTER_RETURN_IF_ERROR(exchange_.send(peer, input(slice(peer))));
    }
    MUSTER_RETURN_IF_ERROR(receive_inputs(mine, scratch));
    MUSTER_RETURN_IF_ERROR(exchange_.run());
    reduce_inputs(mine, result);

    exchange_.begin(operation_, Algorithm::kPairwise);
    if (rank != root) {
      MUSTER_RETURN_IF_ERROR(exchange_.send(root, {result, mine.size}));
      return exchange_.run();
    }
    for (int peer = 0; peer < exchange_.size(); ++peer) {
      if (peer == root) continue;
      const Slice theirs = slice(peer);
      MUSTER_RETURN_IF_ERROR(exchange_.receive(peer, {reduction_.out() + begin_ + theirs.begin, theirs.size}));
    }
    return exchange_.run();
  }

 private:
  Slice slice(int rank) const { return slice_of(size_, exchange_.size(), rank); }
  std::size_t stride(std::size_t size) const { return padded(size) * static_cast<std::size_t>(exchange_.size()); }
  std::span<const std::byte> input(const Slice& at) const { return {reduction_.in() + begin_ + at.begin, at.size}; }

  base::Status receive_inputs(const Slice& at, std::span<std::byte> scratch) {
    for (int peer = 0; peer < exchange_.size(); ++peer) {
      const auto index = static_cast<std::size_t>(peer);
      const std::span<std::byte> place = scratch.subspan(padded(at.size) * index, at.size);
      const bool is_own = peer == exchange_.rank();
      exchange_.operands()[index] = is_own ? input(at).data() : place.data();
      if (!is_own) MUSTER_RETURN_IF_ERROR(exchange_.receive(peer, place));
    }
    return base::ok_status();
  }

  void reduce_inputs(const Slice& at, std::byte* result) {
    reduce(reduction_.type, reduction_.op, exchange_.operands(), result, at.size / reduction_.element(),
           reduction_.scale);
  }

  Exchange& exchange_;
  const Operation& operation_;
  const ReduceTask& reduction_;
  const std::size_t begin_;
  const std::size_t size_;
};

template <typename Step>
base::Status for_each_piece(std::size_t bytes, std::size_t largest, Step step) {
  std::size_t begin = 0;
  do {
    const std::size_t size = std::min(largest, bytes - begin);
    MUSTER_RETURN_IF_ERROR(step(begin, size));
    begin += size;
  } while (begin < bytes);
  return base::ok_status();
}

}  // namespace

base::Status direct_reduce(Exchange& exchange, const Operation& operation, const ReduceTask& reduction, int root) {
  const std::size_t share = padded(kRootPiece / static_cast<std::size_t>(exchange.size()));
  return for_each_piece(reduction.bytes(), share, [&](std::size_t begin, std::size_t size) {
    return Piece(exchange, operation, reduction, begin, size).to_root(root);
  });
}

base::Status sliced_reduce(Exchange& exchange, const Operation& operation, const ReduceTask& reduction, int root) {
  return for_each_piece(reduction.bytes(), kRootPiece, [&](std::size_t begin, std::size_t size) {
    return Piece(exchange, operation, reduction, begin, size).by_slices(root);
  });
}

}  // namespace muster::collectives::algorithm
