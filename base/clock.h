// Time, read from a Clock that the caller passes in, so that tests can move it.
#pragma once

#include <chrono>
#include <string>

namespace muster::base {

using MonotonicTime = std::chrono::steady_clock::time_point;
using WallTime = std::chrono::system_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

// CLOCK_MONOTONIC, for code whose tests need not move the time. Thread-safe.
inline MonotonicTime monotonic_now() {
  return std::chrono::steady_clock::now();
}

class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonotonicTime now() const = 0;  // CLOCK_MONOTONIC; thread-safe
  virtual WallTime wall() const = 0;      // CLOCK_REALTIME; thread-safe
};

class SystemClock final : public Clock {
 public:
  MonotonicTime now() const override { return std::chrono::steady_clock::now(); }
  WallTime wall() const override { return std::chrono::system_clock::now(); }
};

// A clock for tests. Only one thread may use it.
class FakeClock final : public Clock {
 public:
  MonotonicTime now() const override { return now_; }
  WallTime wall() const override { return wall_; }
  void advance(Duration by) {
    now_ += by;
    wall_ += std::chrono::duration_cast<WallTime::duration>(by);
  }

 private:
  MonotonicTime now_{std::chrono::hours(1)};
  WallTime wall_{std::chrono::hours(24 * 365 * 56)};
};

// RFC 3339 in UTC with microseconds, such as 2026-06-20T17:05:53.000123Z.
std::string format_rfc3339(WallTime time);

}  // namespace muster::base
