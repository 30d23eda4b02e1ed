// Adasum (Maleki et al. 2020, "Scaling Distributed Training with Adaptive Summation"). It combines two gradients a and
// b into a (1 - a.b / (2 a.a)) + b (1 - a.b / (2 b.b)). Neighbouring ranks combine first. All ranks get the same bits.
#pragma once

#include <cstddef>

#include "base/status.h"
#include "collectives/group/communicator.h"

namespace muster::collectives::inline engine {

// Reduces one tensor of floats; `in` may be `out`. Dot products are accumulated in double, 16-bit floats in float32.
// The number of ranks of `comm` must be a power of two. Each rank exchanges the whole vector with log2(ranks) other
// ranks.
base::Status adasum(Communicator& comm, const void* in, void* out, std::size_t count, DType type, Scale scale);

}  // namespace muster::collectives::engine
