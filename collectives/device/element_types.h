// Elements as the kernels see them: their layout, the type in which they are accumulated, and conversions. nvcc's
// device code and the host's tests share this file. 16-bit floats are accumulated in float32 and rounded once, to
// nearest even. They are IEEE 754 binary16, and bfloat16, which is the upper half of a binary32.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__CUDACC__)
#define MUSTER_ON_BOTH __host__ __device__ __forceinline__
#define MUSTER_SELDOM __host__ __device__ __noinline__  // for large code that need not be fast
#else
#define MUSTER_ON_BOTH inline
#define MUSTER_SELDOM inline
#endif

namespace muster::collectives::device {

struct Half {
  std::uint16_t bits;
};
struct Bfloat {
  std::uint16_t bits;
};
struct Bool {  // any value but 0 is true; results are 0 and 1
  std::uint8_t bits;
};

template <class To, class From>
MUSTER_ON_BOTH To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

// The type for computing with T: float for 16-bit floats, unsigned for integers, so that they wrap.
template <class T>
struct Accumulated {
  using Type = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
};
template <>
struct Accumulated<Half> {
  using Type = float;
};
template <>
struct Accumulated<Bfloat> {
  using Type = float;
};
template <>
struct Accumulated<Bool> {
  using Type = bool;
};
template <class T>
using AccumulatedOf = typename Accumulated<T>::Type;

MUSTER_ON_BOTH float half_to_float(std::uint16_t bits) {
#if defined(__CUDA_ARCH__)
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#else
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  const std::uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0) {  // zero, or a denormal: a multiple of 2^-24, which float32 can hold
    const float value = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -value : value;
  }
  if (exponent == 31) return bits_as<float>(sign | 0x7f800000U | (fraction << 13));
  return bits_as<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
#endif
}

MUSTER_ON_BOTH std::uint16_t float_to_half(float value) {
#if defined(__CUDA_ARCH__)
  std::uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#else
  const auto bits = bits_as<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return 0x7fff;  // NaN
  if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);
  if (magnitude < 0x38800000U) {
    // Below 2^-14, add 1/2. The last bits of the float32 then hold the multiple of 2^-24, rounded to nearest even.
    const auto rounded = bits_as<std::uint32_t>(bits_as<float>(magnitude) + 0.5F);
    return static_cast<std::uint16_t>(sign | (rounded - 0x3f000000U));
  }
  const std::uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
#endif
}

MUSTER_ON_BOTH std::uint16_t float_to_bfloat(float value) {
#if defined(__CUDA_ARCH__)
  std::uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#else
  const auto bits = bits_as<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return 0x7fff;  // NaN
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
#endif
}

template <class T>
MUSTER_ON_BOTH AccumulatedOf<T> widen(T value) {
  if constexpr (std::is_same_v<T, Half>) {
    return half_to_float(value.bits);
  } else if constexpr (std::is_same_v<T, Bfloat>) {
    return bits_as<float>(static_cast<std::uint32_t>(value.bits) << 16);
  } else if constexpr (std::is_same_v<T, Bool>) {
    return value.bits != 0;
  } else {
    return static_cast<AccumulatedOf<T>>(value);
  }
}

template <class T>
MUSTER_ON_BOTH T narrow(AccumulatedOf<T> value) {
  if constexpr (std::is_same_v<T, Half>) {
    return Half{float_to_half(value)};
  } else if constexpr (std::is_same_v<T, Bfloat>) {
    return Bfloat{float_to_bfloat(value)};
  } else if constexpr (std::is_same_v<T, Bool>) {
    return Bool{static_cast<std::uint8_t>(value ? 1 : 0)};
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace muster::collectives::device
