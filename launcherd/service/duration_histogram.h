// Counts durations by their length, for histograms of /metrics. A plain value.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace muster::launcherd::inline service {

struct DurationHistogram {
  // Upper bounds in seconds: from a start on warm hosts to a job of a week.
  static constexpr std::array kBounds = {0.1,  0.25,  0.5,   1.0,     2.5,      5.0,      10.0,     30.0,
                                         60.0, 300.0, 900.0, 3'600.0, 14'400.0, 86'400.0, 604'800.0};

  void add(double seconds) {
    const double positive = std::max(seconds, 0.0);  // clocks may be set back
    ++counts[static_cast<std::size_t>(std::ranges::lower_bound(kBounds, positive) - kBounds.begin())];
    sum += positive;
  }

  std::array<std::uint64_t, kBounds.size() + 1> counts{};  // not cumulative; the last one has no upper bound
  double sum = 0;
};

}  // namespace muster::launcherd::service
