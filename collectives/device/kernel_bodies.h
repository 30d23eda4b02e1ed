// The work of one thread of a kernel, without CUDA. kernels.cu calls it on the device. Tests call it on the host for
// every thread of every block, one after the other. Threads share nothing and do not wait for each other, so both give
// the same results. IEEE 754 leaves no rounding open here.
//
// Elements move as vectors of 16 bytes where all addresses allow it. For casts, the larger type has 16 bytes. Elements
// before and after the vectors move one by one, as do tensors whose alignments differ.
#pragma once

#include <cstdint>

#include "collectives/device/element_types.h"
#include "collectives/device/kernel_arguments.h"

#if defined(__CUDACC__)
#define MUSTER_PRAGMA(text) _Pragma(#text)
#define MUSTER_UNROLL(times) MUSTER_PRAGMA(unroll times)
#else
#define MUSTER_UNROLL(times)
#endif

namespace muster::collectives::device {

template <class T, int kElements>
struct alignas(sizeof(T) * kElements) Vector {
  T element[kElements];
};

template <class T>
MUSTER_ON_BOTH T* at(std::uint64_t address) {
  return reinterpret_cast<T*>(address);
}

// Stores the whole vector at once. For a struct, nvcc makes a store for each element
// (tests/unit/collectives/device/compile_kernels checks this).
template <class T, int kElements>
MUSTER_ON_BOTH void store(Vector<T, kElements>* to, const Vector<T, kElements>& value) {
  static_assert(sizeof value == 16 || sizeof value == 8);
#if defined(__CUDA_ARCH__)
  std::uint32_t bits[sizeof value / 4];
  memcpy(bits, &value, sizeof value);
  if constexpr (sizeof value == 16) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(bits[0]), "r"(bits[1]), "r"(bits[2]),
                 "r"(bits[3])
                 : "memory");
  } else {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(bits[0]), "r"(bits[1]) : "memory");
  }
#else
  *to = value;
#endif
}

// How a unit's elements [0, count) are cut. The elements [0, head) and those from head + vectors * N on move one by
// one, the rest as vectors.
struct Cut {
  std::uint32_t head;
  std::uint32_t vectors;
};

// Returns the number of elements until `address` is a multiple of kElements elements.
template <class T, int kElements>
MUSTER_ON_BOTH std::uint32_t until_aligned(std::uint64_t address) {
  constexpr std::uint64_t kBytes = sizeof(T) * kElements;
  return static_cast<std::uint32_t>((kBytes - address % kBytes) % kBytes / sizeof(T));
}

template <int kElements>
MUSTER_ON_BOTH Cut cut_of(std::uint32_t count, std::uint32_t head, bool is_alike) {
  if (!is_alike || count < head + kElements) return {count, 0};
  return {head, (count - head) / kElements};
}

// ---- transfers ----

template <class From, class To>
MUSTER_ON_BOTH To transferred(From value, double scale) {
  if constexpr (std::is_integral_v<From>) {  // copies the bits of any type, unscaled
    return value;
  } else {
    using Real = AccumulatedOf<From>;  // To accumulates in the same type
    return narrow<To>(static_cast<Real>(widen(value) * static_cast<Real>(scale)));
  }
}

template <class From, class To>
MUSTER_ON_BOTH void transfer_one(const From* from, To* to, std::uint32_t i, double scale) {
  if (from != nullptr) {
    to[i] = transferred<From, To>(from[i], scale);
  } else {
    to[i] = To{};
  }
}

// Returns the segment in which unit `unit` lies.
template <class Table>
MUSTER_ON_BOTH std::uint32_t segment_of(const Table& table, std::uint64_t unit) {
  std::uint32_t low = 0;
  std::uint32_t high = table.count;
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (table.segments[middle].first_unit <= unit) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// Moves the vectors of a unit; `from` and `to` must be multiples of vectors. A thread's accesses are as wide as its
// vector, so that those of a warp are adjacent.
template <class From, class To, int kElements>
MUSTER_ON_BOTH void transfer_vectors(const From* from, To* to, std::uint32_t vectors, std::uint32_t thread,
                                     double scale) {
  constexpr std::uint32_t kAhead = 64 / sizeof(Vector<From, kElements>);  // loads in flight at once
  const auto* const source = reinterpret_cast<const Vector<From, kElements>*>(from);
  auto* const target = reinterpret_cast<Vector<To, kElements>*>(to);
  for (std::uint32_t first = thread; first < vectors; first += kAhead * kThreads) {
    Vector<From, kElements> read[kAhead];
    MUSTER_UNROLL()
    for (std::uint32_t i = 0; i < kAhead; ++i) {
      if (first + i * kThreads < vectors) read[i] = source[first + i * kThreads];
    }
    MUSTER_UNROLL()
    for (std::uint32_t i = 0; i < kAhead; ++i) {
      if (first + i * kThreads >= vectors) continue;
      Vector<To, kElements> written;
      MUSTER_UNROLL()
      for (int e = 0; e < kElements; ++e) written.element[e] = transferred<From, To>(read[i].element[e], scale);
      store(&target[first + i * kThreads], written);
    }
  }
}

template <class From, class To, class Table>
MUSTER_ON_BOTH void transfer(const Table& table, std::uint32_t block, std::uint32_t thread) {
  constexpr int kElements = 16 / (sizeof(From) > sizeof(To) ? sizeof(From) : sizeof(To));
  const Segment& segment = table.segments[segment_of(table, block)];
  const std::uint64_t first = (block - segment.first_unit) * kUnitElements;
  const std::uint64_t left = segment.elements - first;
  const auto count = static_cast<std::uint32_t>(left < kUnitElements ? left : kUnitElements);
  const From* const from = segment.from == 0 ? nullptr : at<const From>(segment.from) + first;
  To* const to = at<To>(segment.to) + first;
  const std::uint32_t head = until_aligned<To, kElements>(segment.to);
  const bool is_alike = from != nullptr && until_aligned<From, kElements>(segment.from) == head;
  const Cut cut = cut_of<kElements>(count, head, is_alike);
  for (std::uint32_t i = thread; i < cut.head; i += kThreads) transfer_one(from, to, i, table.scale);
  if (cut.vectors == 0) return;
  transfer_vectors<From, To, kElements>(from + cut.head, to + cut.head, cut.vectors, thread, table.scale);
  for (std::uint32_t i = cut.head + cut.vectors * kElements + thread; i < count; i += kThreads) {
    transfer_one(from, to, i, table.scale);
  }
}

// ---- reductions ----

enum class Kind : std::uint32_t { kSum = 0, kMin = 2, kMax = 3, kProd = 4 };  // numbered as RedOp

template <class T, Kind kKind>
MUSTER_ON_BOTH AccumulatedOf<T> combined(AccumulatedOf<T> a, AccumulatedOf<T> b) {
  using Value = AccumulatedOf<T>;
  if constexpr (std::is_same_v<T, Bool>) {
    return kKind == Kind::kSum || kKind == Kind::kMax ? a || b : a && b;
  } else if constexpr (kKind == Kind::kSum) {
    return static_cast<Value>(a + b);
  } else if constexpr (kKind == Kind::kProd) {
    return static_cast<Value>(a * b);
  } else if constexpr (std::is_integral_v<T>) {
    return (static_cast<T>(b) < static_cast<T>(a)) == (kKind == Kind::kMin) ? b : a;
  } else {
    // For equal operands, including 0 and -0, the result is the first one. A NaN wins.
    return ((kKind == Kind::kMin ? b < a : b > a) || b != b) ? b : a;
  }
}

// Truncates towards zero and saturates; NaN gives 0.
template <class T>
MUSTER_ON_BOTH T truncated(double value) {
  constexpr int kBits = 8 * static_cast<int>(sizeof(T)) - (std::is_signed_v<T> ? 1 : 0);
  constexpr double kEnd = static_cast<double>(std::uint64_t{1} << (kBits - 1)) * 2;
  constexpr auto kMost = static_cast<T>((std::uint64_t{1} << (kBits - 1)) - 1 + (std::uint64_t{1} << (kBits - 1)));
  constexpr auto kLeast = static_cast<T>(std::is_signed_v<T> ? -kMost - 1 : 0);
  if (value >= kEnd) return kMost;
  if (value <= static_cast<double>(kLeast)) return kLeast;
  return value == value ? static_cast<T>(value) : T{0};
}

template <class T>
MUSTER_SELDOM T integer_before(T value, const Reduction& call) {
  return truncated<T>(static_cast<double>(value) * call.before);
}
// If only a divisor is set, divides integers exactly, because 49 * (1.0 / 49) is less than 1.
template <class T>
MUSTER_SELDOM T integer_after(T value, const Reduction& call) {
  if (call.after != 1) return truncated<T>(static_cast<double>(value) * call.after / call.divisor);
  return static_cast<T>(static_cast<std::int64_t>(value) / call.divisor);
}

template <class T>
MUSTER_ON_BOTH AccumulatedOf<T> scaled_before(AccumulatedOf<T> value, const Reduction& call) {
  if constexpr (std::is_same_v<T, Bool>) {
    return value;
  } else if constexpr (std::is_integral_v<T>) {
    if (call.before == 1) return value;
    return static_cast<AccumulatedOf<T>>(integer_before<T>(static_cast<T>(value), call));
  } else {
    return value * static_cast<AccumulatedOf<T>>(call.before);
  }
}

template <class T>
MUSTER_ON_BOTH AccumulatedOf<T> scaled_after(AccumulatedOf<T> value, const Reduction& call) {
  using Value = AccumulatedOf<T>;
  if constexpr (std::is_same_v<T, Bool>) {
    return value;
  } else if constexpr (std::is_integral_v<T>) {
    if (call.after == 1 && call.divisor == 1) return value;
    return static_cast<Value>(integer_after<T>(static_cast<T>(value), call));
  } else {
    const Value multiplied = value * static_cast<Value>(call.after);
    return call.divisor == 1 ? multiplied : multiplied / static_cast<Value>(call.divisor);
  }
}

// kInputs is the number of inputs; 0 means that `call` has it.
template <class T, Kind kKind, int kInputs>
MUSTER_ON_BOTH void reduce_one(const Reduction& call, std::uint64_t i) {
  const std::uint32_t inputs = kInputs == 0 ? call.inputs : kInputs;
  AccumulatedOf<T> sum = scaled_before<T>(widen(at<const T>(call.in[0])[i]), call);
  for (std::uint32_t rank = 1; rank < inputs; ++rank) {
    sum = combined<T, kKind>(sum, scaled_before<T>(widen(at<const T>(call.in[rank])[i]), call));
  }
  const T result = narrow<T>(scaled_after<T>(sum, call));
  for (std::uint32_t rank = 0; rank < call.outputs; ++rank) at<T>(call.out[rank])[i] = result;
}

// Reads from rank `rank`, at element `base`, vector `first` and the next ones at distances of kThreads. In place of
// vectors beyond `vectors` it reads vector `first` again.
template <class T, int kElements, std::uint32_t kAhead>
MUSTER_ON_BOTH void read_vectors(const Reduction& call, std::uint32_t rank, std::uint64_t base, std::uint32_t first,
                                 std::uint32_t vectors, Vector<T, kElements> (&read)[kAhead]) {
  const auto* const source = reinterpret_cast<const Vector<T, kElements>*>(at<const T>(call.in[rank]) + base);
  MUSTER_UNROLL()
  for (std::uint32_t v = 0; v < kAhead; ++v) {
    const std::uint32_t one = first + v * kThreads;
    read[v] = source[one < vectors ? one : first];
  }
}

// Reduces the same vectors, kAhead of them at once. It loads all of them before it stores any, since inputs and outputs
// may be the same memory.
template <class T, Kind kKind, int kInputs, std::uint32_t kAhead>
MUSTER_ON_BOTH void reduce_vectors(const Reduction& call, std::uint64_t base, std::uint32_t first,
                                   std::uint32_t vectors) {
  constexpr int kElements = 16 / sizeof(T);
  using Loaded = Vector<T, kElements>;
  const std::uint32_t inputs = kInputs == 0 ? call.inputs : kInputs;
  AccumulatedOf<T> sum[kAhead][kElements];
  Loaded read[kAhead];
  read_vectors(call, 0, base, first, vectors, read);
  MUSTER_UNROLL()
  for (std::uint32_t v = 0; v < kAhead; ++v) {
    MUSTER_UNROLL()
    for (int e = 0; e < kElements; ++e) sum[v][e] = scaled_before<T>(widen(read[v].element[e]), call);
  }
  MUSTER_UNROLL(2)
  for (std::uint32_t rank = 1; rank < inputs; ++rank) {
    read_vectors(call, rank, base, first, vectors, read);
    MUSTER_UNROLL()
    for (std::uint32_t v = 0; v < kAhead; ++v) {
      MUSTER_UNROLL()
      for (int e = 0; e < kElements; ++e) {
        sum[v][e] = combined<T, kKind>(sum[v][e], scaled_before<T>(widen(read[v].element[e]), call));
      }
    }
  }
  MUSTER_UNROLL()
  for (std::uint32_t v = 0; v < kAhead; ++v) {
    const std::uint32_t one = first + v * kThreads;
    if (one >= vectors) continue;
    Loaded result;
    MUSTER_UNROLL()
    for (int e = 0; e < kElements; ++e) result.element[e] = narrow<T>(scaled_after<T>(sum[v][e], call));
    for (std::uint32_t rank = 0; rank < call.outputs; ++rank) {
      store(reinterpret_cast<Loaded*>(at<T>(call.out[rank]) + base) + one, result);
    }
  }
}

// Returns whether all inputs and outputs have the same alignment to 16 bytes.
template <class T>
MUSTER_ON_BOTH bool are_alike(const Reduction& call) {
  const std::uint64_t offset = call.in[0] % 16;
  bool is_alike = true;
  for (std::uint32_t i = 1; i < call.inputs; ++i) is_alike = is_alike && call.in[i] % 16 == offset;
  for (std::uint32_t i = 0; i < call.outputs; ++i) is_alike = is_alike && call.out[i] % 16 == offset;
  return is_alike;
}

template <class T, Kind kKind, int kInputs = 0>
MUSTER_ON_BOTH void reduce_unit(const Reduction& call, std::uint32_t block, std::uint32_t thread) {
  constexpr int kElements = 16 / sizeof(T);
  const std::uint64_t first = std::uint64_t{block} * kUnitElements;
  const std::uint64_t left = call.count - first;
  const auto count = static_cast<std::uint32_t>(left < kUnitElements ? left : kUnitElements);
  const Cut cut = cut_of<kElements>(count, until_aligned<T, kElements>(call.in[0]), are_alike<T>(call));
  for (std::uint32_t i = thread; i < cut.head; i += kThreads) reduce_one<T, kKind, kInputs>(call, first + i);
  constexpr std::uint32_t kAhead = sizeof(T) < 2 ? 1 : 2;  // more do not fit into the registers
  for (std::uint32_t v = thread; v < cut.vectors; v += kAhead * kThreads) {
    reduce_vectors<T, kKind, kInputs, kAhead>(call, first + cut.head, v, cut.vectors);
  }
  for (std::uint32_t i = cut.head + cut.vectors * kElements + thread; i < count; i += kThreads) {
    reduce_one<T, kKind, kInputs>(call, first + i);
  }
}

template <class T>
MUSTER_ON_BOTH void reduce(const Reduction& call, std::uint32_t block, std::uint32_t thread) {
  switch (static_cast<Kind>(call.op)) {
    case Kind::kMin:
      return reduce_unit<T, Kind::kMin>(call, block, thread);
    case Kind::kMax:
      return reduce_unit<T, Kind::kMax>(call, block, thread);
    case Kind::kProd:
      return reduce_unit<T, Kind::kProd>(call, block, thread);
    default:
      if constexpr (!std::is_integral_v<T>) {
        if (call.inputs == 2) return reduce_unit<T, Kind::kSum, 2>(call, block, thread);
      }
      return reduce_unit<T, Kind::kSum>(call, block, thread);
  }
}

}  // namespace muster::collectives::device
