// What a reducing operation gets and gives, and how its vectors are cut.
#pragma once

#include <cstddef>

#include "collectives/kernel/dtype.h"
#include "collectives/kernel/reduce.h"

namespace muster::collectives::inline algorithm {

struct ReduceTask {
  DType type = DType::kF32;
  RedOp op = RedOp::kSum;
  Scale scale{};  // of kAvg, too: the caller gives the divisor
  const void* input = nullptr;
  void* output = nullptr;  // may be `input` where the operation says so; otherwise they do not overlap
  std::size_t count = 0;   // elements; of which vector, the operation says

  std::size_t element() const { return size_of(type); }
  std::size_t bytes() const { return count * element(); }
  const std::byte* in() const { return static_cast<const std::byte*>(input); }
  std::byte* out() const { return static_cast<std::byte*>(output); }
};

// Of a reduction in several steps: what happens to each input in the first one, and to the result in the last one.
inline Scale scale_of_inputs(const Scale& scale) {
  return {.before = scale.before, .after = 1, .divisor = 1};
}
inline Scale scale_of_result(const Scale& scale) {
  return {.before = 1, .after = scale.after, .divisor = scale.divisor};
}

// Whether several steps lose more than the operation has to: 16-bit floats are rounded in each. Such reductions take
// all inputs in one go (pairwise, one shot) unless two ranks are all there are. Of all other types the inputs are
// scaled one by one in the first step and the result in the last, and integers wrap, so that the steps do not matter.
inline bool wants_one_go(DType type) {
  return type == DType::kF16 || type == DType::kBF16;
}

// Whether the inputs may be taken in any order: sums of floats depend on it, and so does which zero or NaN is the
// least.
inline bool is_order_free(DType type) {
  return type != DType::kF16 && type != DType::kBF16 && type != DType::kF32 && type != DType::kF64;
}

}  // namespace muster::collectives::algorithm
