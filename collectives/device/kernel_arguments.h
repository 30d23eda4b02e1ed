// The arguments that the host passes to the kernels of kernels.cu, and the kernels' names. The two sides share nothing
// else.
//
// The structs are passed by value as kernel parameters. So nothing is uploaded, and no buffer must be guarded against
// reuse. The larger tables need 32,764 bytes of parameters, which sm_70 and later have since CUDA 12.1.
#pragma once

#include <cstdint>

namespace muster::collectives::device {

// A block copies or reduces this many elements of one segment.
inline constexpr std::uint32_t kUnitElements = 16384;
inline constexpr std::uint32_t kThreads = 256;  // threads of a block

// One tensor of a transfer, with addresses on the device. If `from` is 0, zeros are written.
struct Segment {
  std::uint64_t from;
  std::uint64_t to;
  std::uint64_t elements;
  std::uint64_t first_unit;  // the number of units in the segments before
};
static_assert(sizeof(Segment) == 32);

// Copies `count` segments, ordered by first_unit. Each element is multiplied by `scale` and cast. The grid has one
// block for each unit.
template <int kCapacity>
struct Transfer {
  double scale;
  std::uint32_t count;
  std::uint32_t padding;
  Segment segments[kCapacity];
};
inline constexpr int kFewSegments = 120;    // fits the 4 KB that every device accepts
inline constexpr int kSomeSegments = 255;   // fits 8 KB, since a launch copies the whole table
inline constexpr int kManySegments = 1020;  // fits 32,764 bytes
static_assert(sizeof(Transfer<kFewSegments>) <= 4096 && sizeof(Transfer<kSomeSegments>) <= 8192);
static_assert(sizeof(Transfer<kManySegments>) <= 32764);

inline constexpr int kMostSharers = 32;  // the most ranks whose buffers one kernel reduces

// out[r][i] = after(in[0][i] op in[1][i] op …) for all r. Every input is multiplied by `before`. The result is
// multiplied by `after` and divided by `divisor`, as in collectives/kernel/reduce.h. An output may equal an input, but
// must not overlap one otherwise. The grid has ceil(count / kUnitElements) blocks.
struct Reduction {
  std::uint64_t in[kMostSharers];
  std::uint64_t out[kMostSharers];
  std::uint64_t count;  // number of elements
  double before;
  double after;
  std::uint32_t divisor;  // not 0
  std::uint32_t op;       // a RedOp; kAvg is passed as kSum
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
