#include "collectives/algorithm/allgather.h"

#include <algorithm>
#include <cstddef>

namespace muster::collectives::inline algorithm {
namespace {

Slice block_of(Blocks blocks, int rank) {
  const int size = static_cast<int>(blocks.size());
  return blocks[static_cast<std::size_t>((rank % size + size) % size)];
}

// A stream of blocks: first the block of rank `first`, then the blocks of the ranks to its left.
class BlockStream {
 public:
  BlockStream(Blocks blocks, int first) : blocks_(blocks), first_(first) {}
  std::size_t total() const {
    std::size_t sum = 0;
    for (std::size_t i = 0; i + 1 < blocks_.size(); ++i) sum += block_of(blocks_, first_ - static_cast<int>(i)).size;
    return sum;
  }
  // Returns the rest of the block that contains position `done` of the stream.
  Slice rest(std::uint64_t done) {
    while (begin_ + block_of(blocks_, first_ - index_).size <= done)
      begin_ += block_of(blocks_, first_ - index_++).size;
    const Slice block = block_of(blocks_, first_ - index_);
    const std::size_t inside = done - begin_;
    return {block.begin + inside, block.size - inside};
  }

 private:
  Blocks blocks_;
  int first_;
  int index_ = 0;
  std::uint64_t begin_ = 0;  // where the block of `index_` begins in the stream
};

}  // namespace

base::Status direct_allgather(Exchange& exchange, const Operation& operation, const void* input, void* output,
                              Blocks blocks) {
  const int size = exchange.size();
  const Slice own = block_of(blocks, exchange.rank());
  copy_block({static_cast<const std::byte*>(input), own.size}, part(output, own));
  exchange.begin(operation, Algorithm::kDirect);
  for (int step = 1; step < size; ++step) {
    const int peer = (exchange.rank() + step) % size;
    MUSTER_RETURN_IF_ERROR(exchange.send(peer, part(output, own)));
    MUSTER_RETURN_IF_ERROR(exchange.receive(peer, part(output, block_of(blocks, peer))));
  }
  return exchange.run();
}

// A rank sends its own block, then all blocks that arrive from its left, except the last one.
base::Status ring_allgather(Exchange& exchange, const Operation& operation, const void* input, void* output,
                            Blocks blocks) {
  const int size = exchange.size();
  const int rank = exchange.rank();
  const Slice own = block_of(blocks, rank);
  copy_block({static_cast<const std::byte*>(input), own.size}, part(output, own));
  if (size == 1) return base::ok_status();
  BlockStream sending(blocks, rank);
  BlockStream receiving(blocks, rank - 1);
  exchange.begin(operation, Algorithm::kRing);
  MUSTER_ASSIGN_OR_RETURN(Outgoing* const to, exchange.open_send((rank + 1) % size, sending.total()));
  MUSTER_ASSIGN_OR_RETURN(Incoming* const from, exchange.open_receive((rank - 1 + size) % size, receiving.total()));
  return exchange.run([&] {
    if (from->needs_more()) from->provide(part(output, receiving.rest(from->received())));
    if (!to->needs_more()) return;
    const std::size_t ready = own.size + from->received() - to->sent();
    if (ready == 0) return;
    const Slice rest = sending.rest(to->sent());
    to->provide(part(output, {rest.begin, std::min(rest.size, ready)}));
  });
}

}  // namespace muster::collectives::algorithm
