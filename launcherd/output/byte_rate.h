// ByteRate computes bytes per second over about the last two seconds, from samples of a counter. Pure; one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace muster::launcherd::inline output {

class ByteRate {
 public:
  // `total` must never decrease. A sample that comes less than 2 s after the last used one has no effect.
  void sample(std::uint64_t total, base::MonotonicTime now) {
    if (from_ && now - *from_ < kWindow) return;
    if (from_) {
      const auto elapsed = std::chrono::duration<double>(now - *from_).count();
      per_second_ = static_cast<std::int64_t>(static_cast<double>(total - total_) / elapsed);
    }
    from_ = now;
    total_ = total;
  }

  std::int64_t per_second() const { return per_second_; }

 private:
  static constexpr std::chrono::seconds kWindow{2};
  std::optional<base::MonotonicTime> from_;
  std::uint64_t total_ = 0;
  std::int64_t per_second_ = 0;
};

}  // namespace muster::launcherd::output
