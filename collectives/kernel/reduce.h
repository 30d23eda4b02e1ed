// The arithmetic of all collectives: k vectors to one, in one pass, in the order in which the inputs are given. Results
// do not depend on alignment, on the instruction set, or on how a vector is cut into calls: element i is always
// ((in[0][i] op in[1][i]) op in[2][i]) …, so that ranks that reduce the same inputs in the same order agree in every
// bit.
//
// float16 and bfloat16 are widened, all inputs are accumulated in float32, and the result is rounded once (to nearest
// even). Integers wrap. NaN: min and max give NaN if any input is one, and every NaN in a result is the quiet one
// without sign or payload. Of 0 and -0, min and max give the one that came first. Whatever is not 0 is a true bool; the
// result is 0 or 1. The caller's floating point modes (rounding, flushing of denormals) do not count. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/kernel/dtype.h"

namespace muster::collectives::inline kernel {

// Every input is multiplied by `before`, the result by `after` and divided by `divisor`, in the type of accumulation
// (float32 for 16-bit floats; double for integers, truncated towards zero and saturated; a whole division where only
// `divisor` is set: 49 * (1.0 / 49) is less than 1). Of bool they are ignored. Where all are 1, they cost nothing.
struct Scale {
  double before = 1;
  double after = 1;
  std::uint32_t divisor = 1;  // not 0
};

// Streaming stores go round the cache: for results larger than it that nobody reads soon, and whose old contents are in
// no cache (not in place). They are visible to other processors before any store after the call.
enum class Stores : std::uint8_t { kCached, kStreaming };

// out[i] for `count` elements. `out` may be one of the inputs, but not overlap one otherwise. kAvg is kSum here: the
// division is the caller's scale.divisor. At least one input.
void reduce(DType type, RedOp op, std::span<const void* const> inputs, void* out, std::size_t count, Scale scale = {},
            Stores stores = Stores::kCached);

// The same result stored to every one of `outputs` (each may be one of the inputs).
void reduce_to_all(DType type, RedOp op, std::span<const void* const> inputs, std::span<void* const> outputs,
                   std::size_t count, Scale scale = {}, Stores stores = Stores::kCached);

// memcpy with stores that go round the cache: for outputs larger than it that nobody reads soon.
void copy_streaming(void* to, const void* from, std::size_t bytes);

// "avx512", "avx2" or "scalar": what the processor has, or what MUSTER_ISA names if it has that.
const char* kernel_isa();

}  // namespace muster::collectives::kernel
