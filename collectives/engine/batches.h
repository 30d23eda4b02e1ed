// Which tensors go through one collective: allreduces of one type, on the way too, reduction and scale are packed into
// one buffer, and other tensors between them are no obstacle. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/engine/negotiation.h"

namespace muster::collectives::inline engine {

// One tensor of what is due.
struct Piece {
  std::size_t due = 0;     // index of the Due
  std::size_t tensor = 0;  // index in its signature
};

struct Batch {
  std::vector<Piece> pieces;  // of an allreduce; otherwise one Due: {due, 0}
  std::size_t bytes = 0;      // with each piece at a multiple of 64
};

// In the order of the first piece of each. A batch of several pieces has at most `threshold` bytes.
// Without `fuses_groups`, several tensors that were submitted as one are packed with nothing else.
std::vector<Batch> batches_of(std::span<const Due> due, std::size_t threshold, bool fuses_groups = true);

// That of the first rank that takes part; there is one where there is no problem and it is no join.
const Signature& signature_of(const Due& due);

}  // namespace muster::collectives::engine
