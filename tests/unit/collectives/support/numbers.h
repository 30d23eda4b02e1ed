// Vectors of every data type for property tests: random inputs small enough that float sums are exact or nearly so, a
// float64 reference, and the bound within which a result has to be.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "collectives/kernel/dtype.h"

namespace muster::collectives {

// Of float16, for normal numbers and zero.
inline double half_to_double(std::uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  const int exponent = bits >> 10 & 0x1f;
  return sign * std::ldexp((bits & 0x3ff) + (exponent == 0 ? 0 : 1024), (exponent == 0 ? 1 : exponent) - 25);
}
// For numbers that float16 has.
inline std::uint16_t double_to_half(double number) {
  if (number == 0) return std::signbit(number) ? 0x8000 : 0;
  int exponent = 0;
  const double mantissa = std::frexp(std::fabs(number), &exponent);  // [0.5, 1)
  const auto bits = static_cast<std::uint32_t>(mantissa * 2048) & 0x3ff;
  return static_cast<std::uint16_t>((number < 0 ? 0x8000U : 0U) | static_cast<std::uint32_t>(exponent + 14) << 10 |
                                    bits);
}

inline double read_element(DType type, const std::byte* at) {
  const auto as = [at]<typename T>(T value) {
    std::memcpy(&value, at, sizeof value);
    return static_cast<double>(value);
  };
  switch (type) {
    case DType::kF16: {
      std::uint16_t bits = 0;
      std::memcpy(&bits, at, sizeof bits);
      return half_to_double(bits);
    }
    case DType::kBF16: {
      std::uint16_t bits = 0;
      std::memcpy(&bits, at, sizeof bits);
      const std::uint32_t wide = std::uint32_t{bits} << 16;
      float value = 0;
      std::memcpy(&value, &wide, sizeof value);
      return value;
    }
    case DType::kF32:
      return as(float{});
    case DType::kF64:
      return as(double{});
    case DType::kI8:
      return as(std::int8_t{});
    case DType::kU8:
      return as(std::uint8_t{});
    case DType::kI16:
      return as(std::int16_t{});
    case DType::kI32:
      return as(std::int32_t{});
    case DType::kI64:
      return as(std::int64_t{});
    case DType::kBool:
      return as(std::uint8_t{});
  }
  return 0;
}

inline void write_element(DType type, std::byte* at, double number) {
  const auto as = [at](auto value) { std::memcpy(at, &value, sizeof value); };
  switch (type) {
    case DType::kF16:
      return as(double_to_half(number));
    case DType::kBF16: {
      // Only used for numbers that bfloat16 has.
      const auto value = static_cast<float>(number);
      std::uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof bits);
      return as(static_cast<std::uint16_t>(bits >> 16));
    }
    case DType::kF32:
      return as(static_cast<float>(number));
    case DType::kF64:
      return as(number);
    case DType::kI8:
      return as(static_cast<std::int8_t>(number));
    case DType::kU8:
      return as(static_cast<std::uint8_t>(number));
    case DType::kI16:
      return as(static_cast<std::int16_t>(number));
    case DType::kI32:
      return as(static_cast<std::int32_t>(number));
    case DType::kI64:
      return as(static_cast<std::int64_t>(number));
    case DType::kBool:
      return as(static_cast<std::uint8_t>(number != 0));
  }
}

inline bool is_float(DType type) {
  return type == DType::kF16 || type == DType::kBF16 || type == DType::kF32 || type == DType::kF64;
}

// Of `ranks` inputs: no integer overflows, and products stay in range.
inline double random_number(std::mt19937& random, DType type, RedOp op) {
  if (type == DType::kBool) return static_cast<double>(random() % 2);
  if (op == RedOp::kProd && is_float(type)) return 0.5 + static_cast<double>(random() % 4) / 4;
  if (op == RedOp::kProd && type == DType::kU8) return static_cast<double>(random() % 8 != 0);
  if (op == RedOp::kProd) return 1 - 2.0 * static_cast<double>(random() % 2);
  if (is_float(type)) return (static_cast<double>(random() % 257) - 128) / 16;  // exact in bfloat16
  return static_cast<double>(random() % 12) - (type == DType::kU8 ? 0 : 4);
}

inline std::vector<std::byte> random_vector(std::mt19937& random, DType type, RedOp op, std::size_t count) {
  std::vector<std::byte> bytes(count * size_of(type));
  for (std::size_t i = 0; i < count; ++i) {
    write_element(type, bytes.data() + i * size_of(type), random_number(random, type, op));
  }
  return bytes;
}

// Of the elements at one place of all inputs.
inline double reference(RedOp op, DType type, const std::vector<double>& inputs) {
  double result = inputs.front();
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    switch (op) {
      case RedOp::kSum:
      case RedOp::kAvg:
        result = type == DType::kBool ? std::fmax(result, inputs[i]) : result + inputs[i];
        break;
      case RedOp::kMin:
        result = std::fmin(result, inputs[i]);
        break;
      case RedOp::kMax:
        result = std::fmax(result, inputs[i]);
        break;
      case RedOp::kProd:
        result *= inputs[i];
        break;
    }
  }
  if (op != RedOp::kAvg) return result;
  result /= static_cast<double>(inputs.size());
  return is_float(type) ? result : std::trunc(result);
}

// How far a float result may be off: half a unit in the last place for each rounding, relative to the largest partial
// result; integers are exact. `roundings`: of the accumulated type.
inline double bound(DType type, double magnitude, std::size_t roundings) {
  const auto times = static_cast<double>(roundings);
  switch (type) {
    case DType::kF16:
      return magnitude * 0x1p-11 * 3;
    case DType::kBF16:
      return magnitude * 0x1p-8 * 3;
    case DType::kF32:
      return magnitude * 0x1p-24 * times;
    case DType::kF64:
      return magnitude * 0x1p-53 * times;
    default:
      return 0;
  }
}

}  // namespace muster::collectives
