#include "collectives/kernel/dtype.h"

#include <array>

namespace muster::collectives::inline kernel {

std::string_view name_of(DType type) {
  constexpr std::array<std::string_view, kDTypes> kNames{"float16", "bfloat16", "float32", "float64", "int8",
                                                         "uint8",   "int16",    "int32",   "int64",   "bool"};
  return kNames.at(static_cast<std::size_t>(type));
}

std::string_view name_of(RedOp op) {
  constexpr std::array<std::string_view, kRedOps> kNames{"sum", "avg", "min", "max", "prod"};
  return kNames.at(static_cast<std::size_t>(op));
}

}  // namespace muster::collectives::kernel
