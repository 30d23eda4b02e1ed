// Adasum (Maleki et al. 2020, "Scaling Distributed Training with Adaptive Summation"): of two gradients a and b,
// a (1 - a.b / 2|a|^2) + b (1 - a.b / 2|b|^2), pair by pair, neighbours first. The same bits on all ranks.
#pragma once

#include <cstddef>

#include "base/status.h"
#include "collectives/group/communicator.h"

namespace muster::collectives::inline engine {

// Of one tensor of floats; `in` may be `out`. Dot products and 16-bit floats are accumulated in double and float32.
// Each rank exchanges the whole vector with log2(ranks) others. `comm` has a power of two of ranks.
base::Status adasum(Communicator& comm, const void* in, void* out, std::size_t count, DType type, Scale scale);

}  // namespace muster::collectives::engine
