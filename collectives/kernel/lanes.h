// Vectors of the instruction set for which the including translation unit is compiled, and how elements are loaded and
// stored. Only isa_*.cc may include it. Everything has internal linkage, and no template of the standard library is
// used. Otherwise the linker could use a function compiled for one instruction set in the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "collectives/kernel/isa.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace muster::collectives::inline kernel {
namespace {

#if defined(__AVX512BW__)
constexpr std::size_t kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr std::size_t kVectorBytes = 32;
#else
constexpr std::size_t kVectorBytes = 16;
#endif

template <class T, std::size_t kBytes = kVectorBytes>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kBytes)));  // NOLINT(modernize-use-using): a size that depends on kBytes
};
template <class T, std::size_t kBytes = kVectorBytes>
using Vector = typename VectorOf<T, kBytes>::Type;

using Floats = Vector<float>;
using Words = Vector<std::uint32_t>;                     // as many elements as Floats
using Halves = Vector<std::uint16_t, kVectorBytes / 2>;  // as many elements as Floats

template <class V>
[[gnu::always_inline]] inline V load(const std::byte* from) {
  V v;
  std::memcpy(&v, from, sizeof(V));
  return v;
}

template <class V>
[[gnu::always_inline]] inline void store(std::byte* to, V v) {
  std::memcpy(to, &v, sizeof(V));
}

// load_part and store_part move the first `bytes` bytes of a vector, fewer than all. The rest of a loaded vector is 0.
template <class V>
[[gnu::always_inline]] inline V load_part(const std::byte* from, std::size_t bytes) {
#if defined(__AVX512BW__)
  if constexpr (sizeof(V) == 64) {
    return (V)_mm512_maskz_loadu_epi8((std::uint64_t{1} << bytes) - 1, from);
  } else {
    return (V)_mm256_maskz_loadu_epi8(static_cast<std::uint32_t>((std::uint64_t{1} << bytes) - 1), from);
  }
#else
  V v{};
  std::memcpy(&v, from, bytes);
  return v;
#endif
}

template <class V>
[[gnu::always_inline]] inline void store_part(std::byte* to, V v, std::size_t bytes) {
#if defined(__AVX512BW__)
  if constexpr (sizeof(V) == 64) {
    _mm512_mask_storeu_epi8(to, (std::uint64_t{1} << bytes) - 1, (__m512i)v);
  } else {
    _mm256_mask_storeu_epi8(to, static_cast<std::uint32_t>((std::uint64_t{1} << bytes) - 1), (__m256i)v);
  }
#else
  std::memcpy(to, &v, bytes);
#endif
}

// Stores past the cache. `to` must be aligned to the vector's size. Uses a plain store if the instruction set has no
// such store.
template <class V>
[[gnu::always_inline]] inline void stream(std::byte* to, V v) {
#if defined(__AVX512BW__)
  if constexpr (sizeof(V) == 64) _mm512_stream_si512(reinterpret_cast<__m512i*>(to), (__m512i)v);
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(V) == 32) _mm256_stream_si256(reinterpret_cast<__m256i*>(to), (__m256i)v);
#endif
#if defined(__SSE2__)
  if constexpr (sizeof(V) == 16) _mm_stream_si128(reinterpret_cast<__m128i*>(to), (__m128i)v);
  if constexpr (sizeof(V) == 8) store(to, v);
#else
  store(to, v);
#endif
}

// Makes streamed stores visible to other processors before any later store.
inline void finish_streaming() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

[[gnu::always_inline]] inline Words bits_of(Floats v) {
  return (Words)v;
}

// Comparisons of vectors yield signed integers.
template <class M>
[[gnu::always_inline]] inline Words mask_of(M comparison) {
  return (Words)comparison;
}

[[gnu::always_inline]] inline Words choose(Words mask, Words yes, Words no) {
  return (yes & mask) | (no & ~mask);
}

inline Floats widen_half(Halves halves) {
#if defined(__AVX512BW__)
  return (Floats)_mm512_maskz_cvtph_ps(0xffff, (__m256i)halves);  // without a mask, g++ 12 warns
#elif defined(__AVX2__)
  return (Floats)_mm256_cvtph_ps((__m128i)halves);
#else
  const Words all = __builtin_convertvector(halves, Words);
  const Words sign = (all & 0x8000U) << 16;
  const Words magnitude = all & 0x7fffU;
  const Words normal = (magnitude << 13) + (112U << 23);
  const Words special = (magnitude << 13) | 0x7f800000U;
  const Words subnormal = bits_of(__builtin_convertvector((Vector<std::int32_t>)magnitude, Floats) * 0x1p-24F);
  Words out = choose(mask_of(magnitude >= 0x7c00U), special, normal);
  out = choose(mask_of(magnitude < 0x0400U), subnormal, out);
  return (Floats)(out | sign);
#endif
}

// Rounds to nearest even. Values that are too large become infinity. `v` must hold only the canonical NaN.
inline Halves narrow_half(Floats v) {
#if defined(__AVX512BW__)
  return (Halves)_mm512_maskz_cvtps_ph(0xffff, (__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__AVX2__)
  return (Halves)_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
  const Words all = bits_of(v);
  const Words magnitude = all & 0x7fffffffU;
  // Below 2^-14 the last place is 2^-24, which is also the last place of 0.5, so the addition rounds.
  const Words subnormal = bits_of((Floats)magnitude + 0.5F) - 0x3f000000U;
  const Words normal = (magnitude - (112U << 23) + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
  Words out = choose(mask_of(magnitude < (113U << 23)), subnormal, normal);
  out = choose(mask_of(magnitude >= 0x477ff000U), Words{} + 0x7c00U, out);  // 65520 and above
  out = choose(mask_of(magnitude > 0x7f800000U), Words{} + 0x7e00U, out);
  return __builtin_convertvector(out | ((all >> 16) & 0x8000U), Halves);
#endif
}

// Rounds to nearest even, in the upper half; the lower half is undefined. `v` must hold only the canonical NaN. The
// addition does not carry out of that NaN.
inline Words rounded_bfloat(Floats v) {
  const Words all = bits_of(v);
  return all + 0x7fffU + ((all >> 16) & 1U);
}

}  // namespace
}  // namespace muster::collectives::kernel
