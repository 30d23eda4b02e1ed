// Sets the processor's default arithmetic while it lives: rounding to nearest even, denormals kept, no traps. So a rank
// whose caller flushes denormals gets the same bits as its peers.
#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace muster::collectives::inline kernel {

class FloatMode {
 public:
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;
#if defined(__SSE2__)
  FloatMode() : callers_(_mm_getcsr()) {
    if (differs()) _mm_setcsr(kDefault);
  }
  ~FloatMode() {
    if (differs()) _mm_setcsr(callers_);
  }

 private:
  static constexpr unsigned kDefault = 0x1f80;     // all exceptions are masked
  static constexpr unsigned kExceptions = 0x003f;  // flags of past exceptions, which are not a mode
  bool differs() const {
    return (callers_ & ~kExceptions) != kDefault;
  }
  unsigned callers_;
#else
  FloatMode() = default;
#endif
};

}  // namespace muster::collectives::kernel
