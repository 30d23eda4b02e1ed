// The arithmetic of all collectives: reduces k vectors to one, in one pass, in the order of the inputs. Element i is
// always ((in[0][i] op in[1][i]) op in[2][i]) …. So results do not depend on alignment, on the instruction set, or on
// how a vector is cut into calls. Ranks that reduce the same inputs in the same order get the same bits.
//
// float16 and bfloat16 are widened to float32, accumulated, and rounded once, to nearest even. Integers wrap. min and
// max give NaN if any input is NaN. Every NaN in a result is the quiet one without sign and payload. Between 0 and -0,
// min and max give the first one. Any bool but 0 is true, and results are 0 or 1. The caller's floating point modes
// (rounding, flushing of denormals) have no effect. The functions are pure.
// Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/kernel/dtype.h"

namespace muster::collectives::inline kernel {

// Every input is multiplied by `before`. The result is multiplied by `after` and divided by `divisor`. All of this
// happens in the type of accumulation, which is float32 for 16-bit floats and double for integers. Integer results are
// truncated towards zero and saturated. If only `divisor` is set, integers are divided exactly, because 49 * (1.0 / 49)
// is less than 1. For bool, scales are ignored. If all are 1, they cost nothing.
struct Scale {
  double before = 1;
  double after = 1;
  std::uint32_t divisor = 1;  // not 0
};

// Streaming stores bypass the cache. Use them for results larger than the cache that are not read soon and whose old
// contents are not cached (not in place). They are visible to other processors before any store after the call.
enum class Stores : std::uint8_t { kCached, kStreaming };

// Reduces `count` elements to `out`. `out` may equal an input, but must not overlap one otherwise. kAvg does the same
// as kSum here: the caller passes the division as scale.divisor. There must be at least one input.
void reduce(DType type, RedOp op, std::span<const void* const> inputs, void* out, std::size_t count, Scale scale = {},
            Stores stores = Stores::kCached);

// Stores the same result to each of `outputs`, any of which may be an input.
void reduce_to_all(DType type, RedOp op, std::span<const void* const> inputs, std::span<void* const> outputs,
                   std::size_t count, Scale scale = {}, Stores stores = Stores::kCached);

// Copies like memcpy, with stores that bypass the cache. Use it for outputs larger than the cache that are not read
// soon.
void copy_streaming(void* to, const void* from, std::size_t bytes);

// Returns "avx512", "avx2" or "scalar": the best one that the processor has, or that of MUSTER_ISA if the processor has
// it.
const char* kernel_isa();

}  // namespace muster::collectives::kernel
