// What gpu_ranks' files share: a rank, its GPU, and the values that every rank can compute for all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "collectives/device/gpu.h"
#include "collectives/include/muster/muster.h"

namespace gpu_ranks {

namespace device = muster::collectives::device;
using device::address_of;

inline void must(const muster::base::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "gpu_ranks: %s\n", status.message().c_str());
  std::exit(1);
}

// One stream of the user's, and copies in it.
struct Machine {
  std::shared_ptr<const device::Gpu> gpu;
  device::Stream stream;
  void copy(const void* to, const void* from, std::size_t bytes) const {
    must(gpu->call("cuMemcpyAsync", gpu->api().copy_async, address_of(to), address_of(from), bytes, stream.get()));
  }
  void wait() const {
    auto event = device::make_event(gpu);
    must(event.status());
    must(gpu->call("cuEventRecord", gpu->api().event_record, event->get(), stream.get()));
    const device::Gpu::Current current(*gpu);
    while (gpu->api().event_query(event->get()) == device::kCudaNotReady) continue;
  }
};

struct Rank {
  muster_comm* comm;
  Machine machine;
  int rank, size;
  std::size_t checks = 0;
};

inline float value_of(int rank, std::size_t i, unsigned seed) {
  const std::uint64_t mixed = (i * 2654435761U + static_cast<unsigned>(rank) * 40503U + seed * 97U) % 20001;
  return (static_cast<float>(mixed) - 10000) / 4096;
}

// Named operations whose results have other sizes, in memory of the caller's and of libmuster's. False: `error` says
// what failed; wrong values end the process.
bool check_engine(Rank& own, muster_error** error);

}  // namespace gpu_ranks
