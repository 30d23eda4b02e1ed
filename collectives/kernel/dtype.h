// Element types and reductions, numbered as in the C ABI (muster.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace muster::collectives::inline kernel {

enum class DType : std::uint8_t { kF16, kBF16, kF32, kF64, kI8, kU8, kI16, kI32, kI64, kBool };
inline constexpr int kDTypes = 10;

// kAvg is the sum divided by the number of ranks; for integers it is truncated towards zero. For bool, sum and max are
// "or", product and min are "and"; bool has no average.
enum class RedOp : std::uint8_t { kSum, kAvg, kMin, kMax, kProd };
inline constexpr int kRedOps = 5;

constexpr std::size_t size_of(DType type) {
  constexpr std::uint8_t kSizes[kDTypes] = {2, 2, 4, 8, 1, 1, 2, 4, 8, 1};
  return kSizes[static_cast<std::size_t>(type)];
}

// Returns the name that muster_perf and messages use: "float16", "bfloat16", "float32", "float64", "int8", "uint8",
// "int16", "int32", "int64", "bool"; "sum", "avg", "min", "max", "prod".
std::string_view name_of(DType type);
std::string_view name_of(RedOp op);

}  // namespace muster::collectives::kernel
