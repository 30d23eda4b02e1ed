// How much the ranks of one job, or of one host, have written. The count is the hub's to raise, on its thread; the rest
// is for the loop thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "launcherd/output/byte_rate.h"

namespace muster::launcherd::inline agents {

struct OutputMeter {
  std::atomic<std::uint64_t> bytes{0};
  ByteRate rate;

  void sample(base::MonotonicTime now) { rate.sample(bytes.load(std::memory_order_relaxed), now); }
};

// As ExpectedAgent wants it; keeps the meter.
inline std::shared_ptr<std::atomic<std::uint64_t>> counter_of(const std::shared_ptr<OutputMeter>& meter) {
  return {meter, &meter->bytes};
}

}  // namespace muster::launcherd::agents
