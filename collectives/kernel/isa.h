// The kernels of one instruction set, as a table that reduce.h uses. Each table has its own translation unit, compiled
// for its instruction set from the same templates (loops.h): isa_scalar.cc, isa_avx2.cc, isa_avx512.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/kernel/dtype.h"
#include "collectives/kernel/reduce.h"

namespace muster::collectives::inline kernel {

// One call of reduce() or reduce_to_all(). `divisor` is not 0. A factor is 1 if there is nothing to multiply.
struct Reduction {
  const void* const* inputs = nullptr;
  std::size_t n_inputs = 0;
  void* const* outputs = nullptr;
  std::size_t n_outputs = 0;
  std::size_t count = 0;
  std::size_t element_bytes = 1;
  double before = 1;
  double after = 1;
  std::uint32_t divisor = 1;
  bool is_scaled = false;     // true if `before`, `after` or `divisor` differs from 1
  bool is_streaming = false;  // stores outputs past the cache, if they have the same alignment
};

struct Isa {
  const char* name = nullptr;
  void (*reduce[kDTypes][kRedOps])(const Reduction&) = {};  // kAvg uses the entry of kSum
  void (*copy_streaming)(void* to, const void* from, std::size_t bytes) = nullptr;
};

extern const Isa kScalarIsa;
extern const Isa kAvx2Isa;    // needs F16C, too; this table and the next exist only in builds for x86-64
extern const Isa kAvx512Isa;  // needs F, BW, DQ and VL

// Returns the instruction sets that this processor has, the best one first. Scalar is always last.
std::span<const Isa* const> isas();

// Does what reduce_to_all() does, with the given instruction set.
void reduce_with(const Isa& isa, DType type, RedOp op, std::span<const void* const> inputs,
                 std::span<void* const> outputs, std::size_t count, Scale scale, Stores stores);

}  // namespace muster::collectives::kernel
