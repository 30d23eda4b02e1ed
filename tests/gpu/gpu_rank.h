// What gpu_ranks' files share: a rank, its GPU, the operations, and the values that every rank can compute for all.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "collectives/device/gpu.h"
#include "collectives/include/muster/muster.h"

namespace gpu_ranks {

namespace device = muster::collectives::device;
using device::address_of;

inline void must(const muster::base::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, status.message().c_str());
  std::exit(1);
}
template <class T>
T must(muster::base::Result<T> result) {
  must(result.status());
  return std::move(*result);
}

// One stream of the user's, and copies in it.
struct Machine {
  std::shared_ptr<const device::Gpu> gpu;
  device::Stream stream;
  device::Event event;
  void copy(const void* to, const void* from, std::size_t bytes) const {
    must(gpu->call("cuMemcpyAsync", gpu->api().copy_async, address_of(to), address_of(from), bytes, stream.get()));
  }
  void wait() const {
    must(gpu->call("cuEventRecord", gpu->api().event_record, event.get(), stream.get()));
    const device::Gpu::Current current(*gpu);
    device::CudaResult result = device::kCudaNotReady;
    while ((result = gpu->api().event_query(event.get())) == device::kCudaNotReady) std::this_thread::yield();
    must(gpu->api().check(result, "the GPU"));
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

// The collectives, in the order in which rank 1 dies in each of them by turns.
enum class Kind { kAllreduce, kBroadcast, kAllgather, kReduceScatter, kAlltoall };
inline constexpr int kKinds = 5;
inline constexpr const char* kNames[] = {"allreduce", "broadcast", "allgather", "reduce_scatter", "alltoall"};

// Enqueues one, on `count` elements of each rank (of each pair of ranks) in `in`, and waits for it.
bool do_one(Rank& own, Kind kind, void* in, void* out, std::size_t count, muster_error** error);

// Named operations whose results have other sizes, in memory of the caller's and of libmuster's. False: `error` says
// what failed; wrong values end the process.
bool check_engine(Rank& own, muster_error** error);

// Allreduces of 4 KiB to `most` bytes, in memory of muster_device_buffer_alloc() and in other: one line of JSON a size.
bool time_allreduce(Rank& own, std::size_t most, muster_error** error);
// Of a rank alone: named operations of 161 small tensors, one after the other, each from its submission to its end.
bool time_fused(Rank& own, muster_error** error);

// Operations of small buffers until one fails, which one does as rank 1 ends between two of them.
[[noreturn]] void run_until_failure(Rank& own, int die_after);
// Rank 1 ends at any moment of operations of `bytes`, which others may wait for on the device. What is left has to go
// on with the GPU and without rank 1, each step of that within a time limit.
bool outlive_a_rank(Rank& own, Kind kind, std::size_t bytes);

}  // namespace gpu_ranks
