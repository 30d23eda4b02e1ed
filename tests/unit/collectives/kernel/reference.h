// What reduce() has to give, computed element by element with the C library's rounding; and inputs to compare with.
#pragma once

#include <cstddef>
#include <random>
#include <span>
#include <vector>

#include "collectives/kernel/reduce.h"

namespace muster::collectives::test {

using Bytes = std::vector<std::byte>;

// The exact bits of reduce_to_all().
Bytes reference(DType type, RedOp op, const std::vector<Bytes>& inputs, Scale scale = {});

// Elements as doubles; int64 is rounded.
std::vector<double> decoded(DType type, const Bytes& elements);

// Half of the elements random in every bit (NaN, infinities and denormals among them), the rest of moderate size.
Bytes random_elements(DType type, std::size_t count, std::mt19937_64& random);

Bytes encoded(DType type, std::span<const double> values);

}  // namespace muster::collectives::test
