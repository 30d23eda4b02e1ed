// The definitions that loops.h needs for each element type: Stored, a vector of elements as they lie in memory; Lanes,
// the vector that accumulates them; the operations; and the scales. Like lanes.h, only isa_*.cc may include this file,
// and everything has internal linkage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "collectives/kernel/isa.h"
#include "collectives/kernel/lanes.h"

namespace muster::collectives::inline kernel {
namespace {

// Real is the type of accumulation.
template <class Real>
struct Floating {
  using Lanes = Vector<Real>;
  using Stored = Lanes;
  struct Scales {
    explicit Scales(const Reduction& call)
        : before(static_cast<Real>(call.before)),
          after(static_cast<Real>(call.after)),
          divisor(static_cast<Real>(call.divisor)) {}
    Real before, after, divisor;
  };

  [[gnu::always_inline]] static Lanes widen(Stored v) { return v; }
  // Every NaN in a result gets the same bit pattern. Otherwise the compiler's order of operands would decide which of
  // two NaNs survives.
  [[gnu::always_inline]] static Stored narrow(Lanes v) {
    const Lanes nan = Lanes{} + static_cast<Real>(__builtin_nan(""));
    return v == v ? v : nan;
  }

  [[gnu::always_inline]] static Lanes sum(Lanes a, Lanes b) { return a + b; }
  [[gnu::always_inline]] static Lanes product(Lanes a, Lanes b) { return a * b; }
  // For equal operands, including 0 and -0, min() and max() return the first one.
  [[gnu::always_inline]] static Lanes min(Lanes a, Lanes b) { return ((b < a) | (b != b)) ? b : a; }
  [[gnu::always_inline]] static Lanes max(Lanes a, Lanes b) { return ((b > a) | (b != b)) ? b : a; }

  [[gnu::always_inline]] static Lanes before(Lanes v, const Scales& scales) { return v * scales.before; }
  [[gnu::always_inline]] static Lanes after(Lanes v, const Scales& scales) {
    const Lanes multiplied = v * scales.after;
    return scales.divisor == 1 ? multiplied : multiplied / scales.divisor;
  }
};

struct Half : Floating<float> {
  using Stored = Halves;
  [[gnu::always_inline]] static Lanes widen(Stored v) { return widen_half(v); }
  [[gnu::always_inline]] static Stored narrow(Lanes v) { return narrow_half(Floating<float>::narrow(v)); }
};

// Elements are the upper and lower halves of words. The loops accumulate both halves in place, without shuffles.
struct Bfloat {
  using Base = Floating<float>;
  struct Lanes {
    Floats lower, upper;
  };
  using Stored = Words;
  using Scales = Base::Scales;

  [[gnu::always_inline]] static Lanes widen(Stored v) { return {(Floats)(v << 16), (Floats)(v & 0xffff0000U)}; }
  [[gnu::always_inline]] static Stored narrow(Lanes v) {
    return (rounded_bfloat(Base::narrow(v.lower)) >> 16) | (rounded_bfloat(Base::narrow(v.upper)) & 0xffff0000U);
  }

  [[gnu::always_inline]] static Lanes sum(Lanes a, Lanes b) {
    return {Base::sum(a.lower, b.lower), Base::sum(a.upper, b.upper)};
  }
  [[gnu::always_inline]] static Lanes product(Lanes a, Lanes b) {
    return {Base::product(a.lower, b.lower), Base::product(a.upper, b.upper)};
  }
  [[gnu::always_inline]] static Lanes min(Lanes a, Lanes b) {
    return {Base::min(a.lower, b.lower), Base::min(a.upper, b.upper)};
  }
  [[gnu::always_inline]] static Lanes max(Lanes a, Lanes b) {
    return {Base::max(a.lower, b.lower), Base::max(a.upper, b.upper)};
  }

  [[gnu::always_inline]] static Lanes before(Lanes v, const Scales& scales) {
    return {Base::before(v.lower, scales), Base::before(v.upper, scales)};
  }
  [[gnu::always_inline]] static Lanes after(Lanes v, const Scales& scales) {
    return {Base::after(v.lower, scales), Base::after(v.upper, scales)};
  }
};

// Lanes are unsigned, so that they wrap.
template <class T>
struct Integer {
  using Lanes = Vector<std::make_unsigned_t<T>>;
  using Stored = Lanes;
  using Signed = Vector<T>;
  struct Scales {
    explicit Scales(const Reduction& call) : before(call.before), after(call.after), divisor(call.divisor) {}
    double before, after;
    std::int64_t divisor;
  };

  [[gnu::always_inline]] static Lanes widen(Stored v) { return v; }
  [[gnu::always_inline]] static Stored narrow(Lanes v) { return v; }

  [[gnu::always_inline]] static Lanes sum(Lanes a, Lanes b) { return a + b; }
  [[gnu::always_inline]] static Lanes product(Lanes a, Lanes b) { return a * b; }
  [[gnu::always_inline]] static Lanes min(Lanes a, Lanes b) { return (Signed)b < (Signed)a ? b : a; }
  [[gnu::always_inline]] static Lanes max(Lanes a, Lanes b) { return (Signed)b > (Signed)a ? b : a; }

  [[gnu::noinline]] static Lanes before(Lanes v, const Scales& scales) {
    if (scales.before == 1) return v;
    return each(v, [&scales](T element) { return truncate(static_cast<double>(element) * scales.before); });
  }
  [[gnu::noinline]] static Lanes after(Lanes v, const Scales& scales) {
    if (scales.after != 1) {
      return each(v, [&scales](T element) {
        return truncate(static_cast<double>(element) * scales.after / static_cast<double>(scales.divisor));
      });
    }
    if (scales.divisor == 1) return v;
    // For numbers below 2^53, a double's quotient truncates to the exact integer quotient.
    if constexpr (sizeof(T) < 8) {
      return each(v, [&scales](T element) { return static_cast<T>(element / static_cast<double>(scales.divisor)); });
    } else {
      return each(v, [&scales](T element) { return static_cast<T>(element / scales.divisor); });
    }
  }

 private:
  // Truncates towards zero and saturates; NaN gives 0.
  [[gnu::always_inline]] static T truncate(double v) {
    constexpr bool kIsSigned = std::is_signed_v<T>;
    constexpr int kBits = 8 * static_cast<int>(sizeof(T)) - (kIsSigned ? 1 : 0);
    constexpr double kEnd = static_cast<double>(std::uint64_t{1} << (kBits - 1)) * 2;
    constexpr auto kMost = static_cast<T>((std::uint64_t{1} << (kBits - 1)) - 1 + (std::uint64_t{1} << (kBits - 1)));
    constexpr auto kLeast = static_cast<T>(kIsSigned ? -kMost - 1 : 0);
    if (v >= kEnd) return kMost;
    if (v <= static_cast<double>(kLeast)) return kLeast;
    return v == v ? static_cast<T>(v) : T{0};
  }
  template <class F>
  [[gnu::always_inline]] static Lanes each(Lanes v, F function) {
    constexpr std::size_t kLanes = sizeof(Lanes) / sizeof(T);
    T elements[kLanes];
    std::memcpy(elements, &v, sizeof(v));
    for (T& element : elements) element = function(element);
    std::memcpy(&v, elements, sizeof(v));
    return v;
  }
};

// Any value but 0 is true; results are 0 and 1.
struct Bool {
  using Lanes = Vector<std::uint8_t>;
  using Stored = Lanes;
  struct Scales {
    explicit Scales(const Reduction&) {}
  };

  [[gnu::always_inline]] static Lanes widen(Stored v) { return (Lanes)(v != 0) & 1; }
  [[gnu::always_inline]] static Stored narrow(Lanes v) { return v; }

  [[gnu::always_inline]] static Lanes sum(Lanes a, Lanes b) { return a | b; }
  [[gnu::always_inline]] static Lanes product(Lanes a, Lanes b) { return a & b; }
  [[gnu::always_inline]] static Lanes min(Lanes a, Lanes b) { return a & b; }
  [[gnu::always_inline]] static Lanes max(Lanes a, Lanes b) { return a | b; }

  [[gnu::always_inline]] static Lanes before(Lanes v, const Scales&) { return v; }
  [[gnu::always_inline]] static Lanes after(Lanes v, const Scales&) { return v; }
};

}  // namespace
}  // namespace muster::collectives::kernel
