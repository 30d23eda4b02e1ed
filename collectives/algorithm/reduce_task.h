// The inputs and outputs of a reducing operation, and how its vectors are cut.
#pragma once

#include <cstddef>

#include "collectives/kernel/dtype.h"
#include "collectives/kernel/reduce.h"

namespace muster::collectives::inline algorithm {

struct ReduceTask {
  DType type = DType::kF32;
  RedOp op = RedOp::kSum;
  Scale scale{};  // the caller sets the divisor for kAvg
  const void* input = nullptr;
  void* output = nullptr;  // may be `input` if the operation allows it; otherwise they must not overlap
  std::size_t count = 0;   // number of elements; each operation says in which vector

  std::size_t element() const { return size_of(type); }
  std::size_t bytes() const { return count * element(); }
  const std::byte* in() const { return static_cast<const std::byte*>(input); }
  std::byte* out() const { return static_cast<std::byte*>(output); }
};

// The scales of a reduction in several steps. The first step scales each input, and the last step scales the result.
inline Scale scale_of_inputs(const Scale& scale) {
  return {.before = scale.before, .after = 1, .divisor = 1};
}
inline Scale scale_of_result(const Scale& scale) {
  return {.before = 1, .after = scale.after, .divisor = scale.divisor};
}

// Returns whether reducing in several steps loses precision that reducing in one step keeps. 16-bit floats lose it,
// because each step rounds. So they need an algorithm that reduces all inputs in one go (pairwise, one shot), unless
// there are only two ranks. For all other types, the first step scales the inputs and the last one the result. Integers
// wrap, so the steps do not matter.
inline bool wants_one_go(DType type) {
  return type == DType::kF16 || type == DType::kBF16;
}

// Returns whether inputs may be reduced in any order. For floats the sum depends on the order, and so does which zero
// or NaN is the least.
inline bool is_order_free(DType type) {
  return type != DType::kF16 && type != DType::kBF16 && type != DType::kF32 && type != DType::kF64;
}

}  // namespace muster::collectives::algorithm
