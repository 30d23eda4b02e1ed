#include "collectives/algorithm/reduce_scatter.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "collectives/algorithm/slices.h"

namespace muster::collectives::inline algorithm {
namespace {

// Large parts move in pieces, which limits the memory for all other inputs to this size.
constexpr std::size_t kScratch = 8 << 20;
constexpr std::size_t kLeastPiece = 64 << 10;

// Reduces the bytes [begin, begin + size) of all parts.
base::Status reduce_piece(Exchange& exchange, const Operation& operation, const ReduceTask& reduction,
                          std::size_t begin, std::size_t size) {
  const int ranks = exchange.size();
  const std::span<std::byte> scratch = exchange.scratch(padded(size) * static_cast<std::size_t>(ranks));
  const std::span<const void*> operands = exchange.operands();
  const auto piece_for = [&](int rank) {
    return std::span(reduction.in() + reduction.bytes() * static_cast<std::size_t>(rank) + begin, size);
  };
  exchange.begin(operation, Algorithm::kPairwise);
  operands[static_cast<std::size_t>(exchange.rank())] = piece_for(exchange.rank()).data();
  for (int step = 1; step < ranks; ++step) {
    const int to = (exchange.rank() + step) % ranks;
    const int from = (exchange.rank() - step + ranks) % ranks;
    const std::span<std::byte> place = scratch.subspan(padded(size) * static_cast<std::size_t>(from), size);
    operands[static_cast<std::size_t>(from)] = place.data();
    MUSTER_RETURN_IF_ERROR(exchange.send(to, piece_for(to)));
    MUSTER_RETURN_IF_ERROR(exchange.receive(from, place));
  }
  // In place, the result overwrites rank 0's part of this piece, which has been sent by now.
  MUSTER_RETURN_IF_ERROR(exchange.run());
  reduce(reduction.type, reduction.op, operands, reduction.out() + begin, size / reduction.element(), reduction.scale);
  return base::ok_status();
}

}  // namespace

base::Status pairwise_reduce_scatter(Exchange& exchange, const Operation& operation, const ReduceTask& reduction) {
  const std::size_t share = kScratch / static_cast<std::size_t>(exchange.size());
  const std::size_t piece = std::max(kLeastPiece, share / kLeastPiece * kLeastPiece);
  std::size_t begin = 0;
  do {
    const std::size_t size = std::min(piece, reduction.bytes() - begin);
    MUSTER_RETURN_IF_ERROR(reduce_piece(exchange, operation, reduction, begin, size));
    begin += size;
  } while (begin < reduction.bytes());
  return base::ok_status();
}

}  // namespace muster::collectives::algorithm
