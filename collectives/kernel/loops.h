// The loops over vectors, and the table of them that a translation unit isa_*.cc exports. Like lanes.h, only isa_*.cc
// may include this file, and everything has internal linkage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "collectives/kernel/elements.h"
#include "collectives/kernel/isa.h"
#include "collectives/kernel/lanes.h"

namespace muster::collectives::inline kernel {
namespace {

template <class E, RedOp kOp>
[[gnu::always_inline]] inline typename E::Lanes join(typename E::Lanes a, typename E::Lanes b) {
  if constexpr (kOp == RedOp::kMin) return E::min(a, b);
  if constexpr (kOp == RedOp::kMax) return E::max(a, b);
  if constexpr (kOp == RedOp::kProd) return E::product(a, b);
  return E::sum(a, b);
}

// Calls function(0) to function(kTimes - 1), each with a constant. So arrays that `function` indexes stay in registers
// at every level of optimization.
template <class Function, std::size_t... kIndices>
[[gnu::always_inline]] inline void unrolled(std::index_sequence<kIndices...> /*times*/, Function function) {
  (function(kIndices), ...);
}
#define MUSTER_UNROLLED(times, index) \
  unrolled(std::make_index_sequence<times>(), [&](std::size_t index) __attribute__((always_inline))

// The loop of one element type and operation. It accumulates all inputs of a block in registers before it stores any
// output. So an output may be an input.
template <class E, RedOp kOp, bool kScaled>
struct Loop {
  using Lanes = typename E::Lanes;
  using Stored = typename E::Stored;
  static constexpr std::size_t kStep = sizeof(Stored);
  static constexpr std::size_t kUnrolled = 4;
  static constexpr std::size_t kBlock = kUnrolled * kStep;

  const Reduction& call;
  const typename E::Scales scales{call};

  [[gnu::always_inline]] Lanes widen(Stored v) const {
    if constexpr (kScaled) return E::before(E::widen(v), scales);
    return E::widen(v);
  }
  [[gnu::always_inline]] Stored narrow(Lanes v) const {
    if constexpr (kScaled) return E::narrow(E::after(v, scales));
    return E::narrow(v);
  }
  [[gnu::always_inline]] const std::byte* input(std::size_t i) const {
    return static_cast<const std::byte*>(call.inputs[i]);
  }
  [[gnu::always_inline]] std::byte* output(std::size_t i) const { return static_cast<std::byte*>(call.outputs[i]); }

  template <std::size_t kVectors, bool kStreams>
  [[gnu::always_inline]] void block(std::size_t at) const {
    Lanes sums[kVectors];
    const std::byte* from = input(0) + at;
    MUSTER_UNROLLED(kVectors, v) {
      sums[v] = widen(load<Stored>(from + v * kStep));
    });
    for (std::size_t i = 1; i < call.n_inputs; ++i) {
      from = input(i) + at;
      MUSTER_UNROLLED(kVectors, v) {
        sums[v] = join<E, kOp>(sums[v], widen(load<Stored>(from + v * kStep)));
      });
    }
    Stored results[kVectors];
    MUSTER_UNROLLED(kVectors, v) {
      results[v] = narrow(sums[v]);
    });
    for (std::size_t o = 0; o < call.n_outputs; ++o) {
      std::byte* to = output(o) + at;
      MUSTER_UNROLLED(kVectors, v) {
        if constexpr (kStreams) {
          stream<Stored>(to + v * kStep, results[v]);
        } else {
          store<Stored>(to + v * kStep, results[v]);
        }
      });
    }
  }

  // Handles less than one vector.
  [[gnu::always_inline]] void part(std::size_t at, std::size_t bytes) const {
    Lanes sum = widen(load_part<Stored>(input(0) + at, bytes));
    for (std::size_t i = 1; i < call.n_inputs; ++i) {
      sum = join<E, kOp>(sum, widen(load_part<Stored>(input(i) + at, bytes)));
    }
    const Stored result = narrow(sum);
    for (std::size_t o = 0; o < call.n_outputs; ++o) store_part<Stored>(output(o) + at, result, bytes);
  }

  void store_all(std::size_t at, std::size_t end) const {
    for (; end - at >= kBlock; at += kBlock) block<kUnrolled, false>(at);
    for (; end - at >= kStep; at += kStep) block<1, false>(at);
    if (at < end) part(at, end - at);
  }

  // Streams from the first aligned vector on.
  void stream_all(std::size_t bytes) const {
    const std::size_t head = -reinterpret_cast<std::uintptr_t>(call.outputs[0]) % kVectorBytes;
    std::size_t at = head < bytes ? head : bytes;
    store_all(0, at);
    for (; bytes - at >= kBlock; at += kBlock) block<kUnrolled, true>(at);
    finish_streaming();
    store_all(at, bytes);
  }
};
#undef MUSTER_UNROLLED

template <class E, RedOp kOp, bool kScaled>
void run(const Reduction& call) {
  const Loop<E, kOp, kScaled> loop{call};
  const std::size_t bytes = call.count * call.element_bytes;
  if (call.is_streaming) {
    loop.stream_all(bytes);
  } else {
    loop.store_all(0, bytes);
  }
}

template <class E, RedOp kOp>
void reduce_by(const Reduction& call) {
  if (call.is_scaled) {
    run<E, kOp, true>(call);
  } else {
    run<E, kOp, false>(call);
  }
}

template <class E>
constexpr void fill(void (*(&row)[kRedOps])(const Reduction&)) {
  row[static_cast<int>(RedOp::kSum)] = reduce_by<E, RedOp::kSum>;
  row[static_cast<int>(RedOp::kAvg)] = reduce_by<E, RedOp::kSum>;
  row[static_cast<int>(RedOp::kMin)] = reduce_by<E, RedOp::kMin>;
  row[static_cast<int>(RedOp::kMax)] = reduce_by<E, RedOp::kMax>;
  row[static_cast<int>(RedOp::kProd)] = reduce_by<E, RedOp::kProd>;
}

inline void copy_streaming_with(void* to, const void* from, std::size_t bytes) {
  using V = Vector<std::uint8_t>;
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  std::size_t head = -reinterpret_cast<std::uintptr_t>(to) % kVectorBytes;
  if (head > bytes) head = bytes;
  std::memcpy(out, in, head);
  std::size_t at = head;
  constexpr std::size_t kBlock = 4 * kVectorBytes;
  for (; bytes - at >= kBlock; at += kBlock) {
    V block[4];
    for (std::size_t v = 0; v < 4; ++v) block[v] = load<V>(in + at + v * kVectorBytes);
    for (std::size_t v = 0; v < 4; ++v) stream<V>(out + at + v * kVectorBytes, block[v]);
  }
  finish_streaming();
  std::memcpy(out + at, in + at, bytes - at);
}

constexpr Isa make_isa(const char* name) {
  Isa isa;
  isa.name = name;
  fill<Half>(isa.reduce[static_cast<int>(DType::kF16)]);
  fill<Bfloat>(isa.reduce[static_cast<int>(DType::kBF16)]);
  fill<Floating<float>>(isa.reduce[static_cast<int>(DType::kF32)]);
  fill<Floating<double>>(isa.reduce[static_cast<int>(DType::kF64)]);
  fill<Integer<std::int8_t>>(isa.reduce[static_cast<int>(DType::kI8)]);
  fill<Integer<std::uint8_t>>(isa.reduce[static_cast<int>(DType::kU8)]);
  fill<Integer<std::int16_t>>(isa.reduce[static_cast<int>(DType::kI16)]);
  fill<Integer<std::int32_t>>(isa.reduce[static_cast<int>(DType::kI32)]);
  fill<Integer<std::int64_t>>(isa.reduce[static_cast<int>(DType::kI64)]);
  fill<Bool>(isa.reduce[static_cast<int>(DType::kBool)]);
  isa.copy_streaming = copy_streaming_with;
  return isa;
}

}  // namespace
}  // namespace muster::collectives::kernel
