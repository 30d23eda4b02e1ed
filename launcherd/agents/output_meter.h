// Measures how much the ranks of one job, or of one host, have written.
//
// Owner: shared by the pool and the output hub.
// Thread: the hub's thread raises `bytes`. Everything else is for the loop thread.
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

// Returns the counter as ExpectedAgent needs it. The pointer keeps the meter alive.
inline std::shared_ptr<std::atomic<std::uint64_t>> counter_of(const std::shared_ptr<OutputMeter>& meter) {
  return {meter, &meter->bytes};
}

}  // namespace muster::launcherd::agents
