// Decides which tensors share one collective. Allreduces with the same type, wire type, reduction and scale are packed
// into one buffer, even if other tensors lie between them. Everything here is pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/engine/negotiation.h"

namespace muster::collectives::inline engine {

// Identifies one tensor of the submissions that all ranks have made.
struct Piece {
  std::size_t due = 0;     // index of its submission in `due` of batches_of()
  std::size_t tensor = 0;  // index in the submission's signature
};

struct Batch {
  std::vector<Piece> pieces;  // of an allreduce: its tensors; of any other kind: one submission, as {due, 0}
  std::size_t bytes = 0;      // counted with each piece at a multiple of 64
};

// Batches are in the order of their first pieces. A batch of several pieces has at most `threshold` bytes. Without
// `fuses_groups`, tensors that were submitted as one group are packed with nothing else.
std::vector<Batch> batches_of(std::span<const Due> due, std::size_t threshold, bool fuses_groups = true);

// Returns the signature of the first rank that takes part. `due` must have no problem and must not be a join.
const Signature& signature_of(const Due& due);

}  // namespace muster::collectives::engine
