#include "collectives/kernel/reduce.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/env.h"
#include "collectives/kernel/float_mode.h"
#include "collectives/kernel/isa.h"

namespace muster::collectives::inline kernel {
namespace {

// Returns the instruction set that MUSTER_ISA names if the processor has it, otherwise the best one.
const Isa& chosen_isa() {
  static const Isa& isa = []() -> const Isa& {
    const auto wanted = base::env_var("MUSTER_ISA");
    for (const Isa* candidate : isas()) {
      if (wanted == candidate->name) return *candidate;
    }
    return *isas().front();
  }();
  return isa;
}

// Streaming stores need aligned vectors, so all outputs must have the same alignment.
bool are_aligned_alike(std::span<void* const> outputs, std::size_t element_bytes) {
  constexpr std::uintptr_t kLine = 64;
  const auto first = reinterpret_cast<std::uintptr_t>(outputs.front());
  return first % element_bytes == 0 && std::ranges::all_of(outputs, [first](const void* output) {
           return reinterpret_cast<std::uintptr_t>(output) % kLine == first % kLine;
         });
}

bool is_floating(DType type) {
  return type == DType::kF16 || type == DType::kBF16 || type == DType::kF32 || type == DType::kF64;
}

// For floats, multiply by the inverse of a power of two, which gives the same result and is faster than a division.
Scale simplified(DType type, Scale scale) {
  if (is_floating(type) && std::has_single_bit(scale.divisor)) {
    scale.after /= scale.divisor;
    scale.divisor = 1;
  }
  return scale;
}

}  // namespace

void reduce_with(const Isa& isa, DType type, RedOp op, std::span<const void* const> inputs,
                 std::span<void* const> outputs, std::size_t count, Scale scale, Stores stores) {
  scale = simplified(type, scale);
  Reduction call{.inputs = inputs.data(),
                 .n_inputs = inputs.size(),
                 .outputs = outputs.data(),
                 .n_outputs = outputs.size(),
                 .count = count,
                 .element_bytes = size_of(type),
                 .before = scale.before,
                 .after = scale.after,
                 .divisor = scale.divisor};
  call.is_scaled = scale.before != 1 || scale.after != 1 || scale.divisor != 1;
  call.is_streaming = stores == Stores::kStreaming && are_aligned_alike(outputs, call.element_bytes);
  const FloatMode mode;
  isa.reduce[static_cast<std::size_t>(type)][static_cast<std::size_t>(op)](call);
}

void reduce(DType type, RedOp op, std::span<const void* const> inputs, void* out, std::size_t count, Scale scale,
            Stores stores) {
  reduce_with(chosen_isa(), type, op, inputs, std::span<void* const>(&out, 1), count, scale, stores);
}

void reduce_to_all(DType type, RedOp op, std::span<const void* const> inputs, std::span<void* const> outputs,
                   std::size_t count, Scale scale, Stores stores) {
  reduce_with(chosen_isa(), type, op, inputs, outputs, count, scale, stores);
}

void copy_streaming(void* to, const void* from, std::size_t bytes) {
  chosen_isa().copy_streaming(to, from, bytes);
}

const char* kernel_isa() {
  return chosen_isa().name;
}

}  // namespace muster::collectives::kernel
