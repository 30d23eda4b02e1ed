// What the host hands to the kernels of kernels.cu, and their names: the only thing that the two sides share.
//
// Plain structs, passed by value as kernel parameters (no upload, no buffer whose reuse has to be guarded). The larger
// tables need the 32,764 bytes of parameters that devices from sm_70 on take since CUDA 12.1.
#pragma once

#include <cstdint>

namespace muster::collectives::device {

// A block copies so many elements of one segment, or reduces so many.
inline constexpr std::uint32_t kUnitElements = 16384;
inline constexpr std::uint32_t kThreads = 256;  // of a block

// One tensor of a transfer: addresses on the device. `from` 0: zeros are written.
struct Segment {
  std::uint64_t from;
  std::uint64_t to;
  std::uint64_t elements;
  std::uint64_t first_unit;  // how many units the segments before it have
};
static_assert(sizeof(Segment) == 32);

// Copies `count` segments, in order of first_unit, each element times `scale` and cast; grid: as many blocks as units.
template <int kCapacity>
struct Transfer {
  double scale;
  std::uint32_t count;
  std::uint32_t padding;
  Segment segments[kCapacity];
};
inline constexpr int kFewSegments = 120;    // in the 4 KB that every device takes
inline constexpr int kSomeSegments = 255;   // in 8 KB: a launch copies the whole table
inline constexpr int kManySegments = 1020;  // in 32,764 bytes
static_assert(sizeof(Transfer<kFewSegments>) <= 4096 && sizeof(Transfer<kSomeSegments>) <= 8192);
static_assert(sizeof(Transfer<kManySegments>) <= 32764);

inline constexpr int kMostSharers = 32;  // ranks whose buffers one kernel reduces

// out[r][i] = after(in[0][i] op in[1][i] op …) for all r: every input is multiplied by `before`, the result by `after`
// and divided by `divisor`, as in collectives/kernel/reduce.h. An output may be one of the inputs, but not overlap one
// otherwise. Grid: ceil(count / kUnitElements) blocks.
struct Reduction {
  std::uint64_t in[kMostSharers];
  std::uint64_t out[kMostSharers];
  std::uint64_t count;  // elements
  double before;
  double after;
  std::uint32_t divisor;  // not 0
  std::uint32_t op;       // RedOp; kAvg is kSum
  std::uint32_t inputs;
  std::uint32_t outputs;
};

// Kernels by name: X(name, type from, type to) and X(name, type). "muster_transfer_<name>_few", "…_some" and
// "…_many" take a Transfer, "muster_reduce_<name>" a Reduction.
#define MUSTER_TRANSFER_KERNELS(X)       \
  X(copy1, std::uint8_t, std::uint8_t)   \
  X(copy2, std::uint16_t, std::uint16_t) \
  X(copy4, std::uint32_t, std::uint32_t) \
  X(copy8, std::uint64_t, std::uint64_t) \
  X(float16_float16, Half, Half)         \
  X(bfloat16_bfloat16, Bfloat, Bfloat)   \
  X(float32_float32, float, float)       \
  X(float64_float64, double, double)     \
  X(float32_float16, float, Half)        \
  X(float32_bfloat16, float, Bfloat)     \
  X(float16_float32, Half, float)        \
  X(bfloat16_float32, Bfloat, float)
#define MUSTER_REDUCE_KERNELS(X) \
  X(float16, Half)               \
  X(bfloat16, Bfloat)            \
  X(float32, float)              \
  X(float64, double)             \
  X(int8, std::int8_t)           \
  X(uint8, std::uint8_t)         \
  X(int16, std::int16_t)         \
  X(int32, std::int32_t)         \
  X(int64, std::int64_t)         \
  X(bool, Bool)

}  // namespace muster::collectives::device
