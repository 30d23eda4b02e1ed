// Vectors of every element type for tests: random ones, their values as doubles, and the reduction of several in
// double precision.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "collectives/algorithm/reduce_task.h"

namespace muster::collectives {

inline constexpr std::byte kPoison{0xa5};
inline constexpr std::size_t kGuard = 64;  // bytes behind a vector that nobody may touch

// With a guard behind it.
inline std::vector<std::byte> poisoned(std::size_t bytes) {
  return std::vector<std::byte>(bytes + kGuard, kPoison);
}
inline bool is_guard_intact(const std::vector<std::byte>& vector) {
  for (std::size_t i = vector.size() - kGuard; i < vector.size(); ++i) {
    if (vector[i] != kPoison) return false;
  }
  return true;
}

inline bool is_float(DType type) {
  return type == DType::kF16 || type == DType::kBF16 || type == DType::kF32 || type == DType::kF64;
}
// The distance of 1 to the next number.
inline double epsilon_of(DType type) {
  switch (type) {
    case DType::kF16:
      return std::ldexp(1, -10);
    case DType::kBF16:
      return std::ldexp(1, -7);
    case DType::kF32:
      return std::ldexp(1, -23);
    default:
      return std::ldexp(1, -52);
  }
}

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}
template <typename T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

inline double value_of_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  const double size = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31) return fraction == 0 ? INFINITY : NAN;
  return (bits & 0x8000) != 0 ? -size : size;
}

inline double value_at(DType type, const std::byte* at) {
  switch (type) {
    case DType::kF16:
      return value_of_half(load<std::uint16_t>(at));
    case DType::kBF16: {
      const std::uint32_t bits = static_cast<std::uint32_t>(load<std::uint16_t>(at)) << 16;
      float value = 0;
      std::memcpy(&value, &bits, sizeof(value));
      return value;
    }
    case DType::kF32:
      return load<float>(at);
    case DType::kF64:
      return load<double>(at);
    case DType::kI8:
      return load<std::int8_t>(at);
    case DType::kU8:
      return load<std::uint8_t>(at);
    case DType::kI16:
      return load<std::int16_t>(at);
    case DType::kI32:
      return load<std::int32_t>(at);
    case DType::kI64:
      return static_cast<double>(load<std::int64_t>(at));
    case DType::kBool:
      return load<std::uint8_t>(at) != 0 ? 1 : 0;
  }
  return 0;
}

// `value` is one that the type has; of integers it wraps.
inline void put_value(DType type, std::byte* at, double value) {
  switch (type) {
    case DType::kF16: {
      // Normal numbers only.
      int exponent = 0;
      const double fraction = std::frexp(std::fabs(value), &exponent);
      const int bits = value == 0 ? 0 : (exponent + 14) << 10 | (static_cast<int>(fraction * 2048) & 1023);
      return store(at, static_cast<std::uint16_t>(bits | (value < 0 ? 0x8000 : 0)));
    }
    case DType::kBF16: {
      const auto narrow = static_cast<float>(value);
      std::uint32_t bits = 0;
      std::memcpy(&bits, &narrow, sizeof(bits));
      return store(at, static_cast<std::uint16_t>(bits >> 16));
    }
    case DType::kF32:
      return store(at, static_cast<float>(value));
    case DType::kF64:
      return store(at, value);
    case DType::kI8:
      return store(at, static_cast<std::int8_t>(static_cast<std::int64_t>(value)));
    case DType::kU8:
      return store(at, static_cast<std::uint8_t>(static_cast<std::int64_t>(value)));
    case DType::kI16:
      return store(at, static_cast<std::int16_t>(static_cast<std::int64_t>(value)));
    case DType::kI32:
      return store(at, static_cast<std::int32_t>(static_cast<std::int64_t>(value)));
    case DType::kI64:
      return store(at, static_cast<std::int64_t>(value));
    case DType::kBool:
      return store(at, static_cast<std::uint8_t>(value != 0));
  }
}

// Of sizes for which all sums and products are exact in double precision; those of integers may leave their type.
inline double random_value(DType type, RedOp op, std::mt19937& random) {
  if (type == DType::kBool) return static_cast<double>(random() % 2);
  if (op == RedOp::kProd) {
    constexpr double kFactors[] = {1, 2, -1, -2, 0.5, -0.5};
    return type == DType::kU8 ? static_cast<double>(1 + random() % 3) : kFactors[random() % (is_float(type) ? 6 : 4)];
  }
  switch (type) {
    case DType::kF16:
    case DType::kBF16:
      return (static_cast<double>(random() % 129) - 64) / 8;
    case DType::kF32:
      return static_cast<float>(std::uniform_real_distribution<double>(-100, 100)(random));
    case DType::kF64:
      return std::uniform_real_distribution<double>(-100, 100)(random);
    case DType::kI64:
      return std::floor(std::uniform_real_distribution<double>(-1e12, 1e12)(random));
    default: {
      std::byte bytes[8] = {};
      put_value(type, bytes, std::floor(std::uniform_real_distribution<double>(-3e9, 3e9)(random)));
      return value_at(type, bytes);
    }
  }
}

// With a guard behind it.
inline std::vector<std::byte> random_vector(DType type, RedOp op, std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> vector = poisoned(count * size_of(type));
  for (std::size_t i = 0; i < count; ++i) put_value(type, &vector[i * size_of(type)], random_value(type, op, random));
  return vector;
}

// As the type has it: floats as they are, integers wrapped.
inline double wrapped(DType type, double value) {
  if (is_float(type)) return value;
  std::byte bytes[8] = {};
  put_value(type, bytes, std::trunc(value));
  return value_at(type, bytes);
}

inline double combine(DType type, RedOp op, double a, double b) {
  if (type == DType::kBool) op = op == RedOp::kSum ? RedOp::kMax : op == RedOp::kProd ? RedOp::kMin : op;
  switch (op) {
    case RedOp::kSum:
    case RedOp::kAvg:
      return a + b;
    case RedOp::kMin:
      return std::min(a, b);
    case RedOp::kMax:
      return std::max(a, b);
    case RedOp::kProd:
      return a * b;
  }
  return 0;
}

// Whether element `i` of `got` is what the reduction of `inputs` has to give. Integers exactly; floats within
// `roundings` roundings of the largest partial result.
inline bool is_reduction(DType type, RedOp op, const Scale& scale, const std::vector<std::vector<std::byte>>& inputs,
                         const std::byte* got, std::size_t i, int roundings) {
  const std::size_t at = i * size_of(type);
  double expected = 0;
  double largest = 0;
  for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
    const double value = wrapped(type, value_at(type, &inputs[rank][at]) * (type == DType::kBool ? 1 : scale.before));
    expected = rank == 0 ? value : wrapped(type, combine(type, op, expected, value));
    largest = std::max(largest + (op == RedOp::kProd ? 0 : std::fabs(value)), std::fabs(expected));
  }
  const double factor = type == DType::kBool ? 1 : scale.after / scale.divisor;
  const double actual = value_at(type, got + at);
  if (!is_float(type))
    return actual == (type == DType::kBool ? expected : std::trunc(expected * scale.after / scale.divisor));
  return std::fabs(actual - expected * factor) <= largest * std::fabs(factor) * epsilon_of(type) * roundings;
}

}  // namespace muster::collectives
