// A way that collectives on GPU buffers take: see path.h. Made on all ranks of a communicator at once; every operation
// is called on all of them, in the same order, by one thread at a time.
//
// An operation enqueues its work on the stream of the rank, behind what is there; the host waits for other ranks, and
// may wait for the device, but when it returns the device may still be at work. After an error the communicator is to
// be ended (DeviceTeam does).
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/status.h"
#include "collectives/algorithm/blocks.h"
#include "collectives/algorithm/reduce_task.h"
#include "collectives/device/gpu.h"
#include "collectives/device/kernels.h"
#include "collectives/group/communicator.h"

namespace muster::collectives::device {

// What all routes of a rank use; outlives them.
struct Ground {
  Communicator& comm;
  std::shared_ptr<const Gpu> gpu;
  const Kernels* kernels;  // null: there are none
  void* stream;
};

class Route {
 public:
  virtual ~Route() = default;
  // The communicator has ended: what waits for other ranks on the device (kernels of NCCL's only) is to give up.
  virtual void abort() {}
  // An operation begins: what comes on the rank's stream from here on is its own.
  virtual base::Status mark_begin() { return base::ok_status(); }
  // An error: what this route has on the device will not come to an end by itself. Asked while the host waits for that.
  virtual base::Status health() { return base::ok_status(); }
  // The rank's stream goes on when the device has done what this route has given it in streams of its own.
  virtual base::Status gather() { return base::ok_status(); }
  // Of task.count elements; the divisor of kAvg is the route's business. In place allowed, as everywhere here.
  virtual base::Status allreduce(const ReduceTask& task) = 0;
  virtual base::Status broadcast(void* data, std::size_t bytes, int root) = 0;
  // bytes of each rank, one block behind the other.
  virtual base::Status allgather(const void* in, void* out, std::size_t bytes) = 0;
  // task.count elements for each rank, of size * task.count.
  virtual base::Status reduce_scatter(const ReduceTask& task) = 0;
  // One block to each rank and one from each; they do not overlap.
  virtual base::Status alltoall(const void* in, Blocks to, void* out, Blocks from) = 0;

  // Collective: device memory with which this route is fastest. `bytes` may differ between ranks.
  virtual base::Result<void*> allocate(std::size_t bytes) = 0;
  // Of this rank alone. What is to be freed, by a thread that may wait for all streams of the GPU; empty: others may
  // have it mapped, and it stays until this route ends. INVALID_ARGUMENT: it is none of allocate()'s.
  virtual base::Result<DeviceMemory> release(void* memory) = 0;
};

// What a rank says of an operation, so that ranks that call different things find out before data is taken, and where
// its buffers lie for others (region 0: nowhere); NcclRoute puts a yes (1) or no there. Trivially copyable.
struct Said {
  Call call;
  std::uint32_t in_region = 0;
  std::uint32_t out_region = 0;
  std::uint64_t in_offset = 0;
  std::uint64_t out_offset = 0;
};
static_assert(sizeof(Said) == 40);

// What every rank says to all others, by rank. Collective.
template <class T>
base::Result<std::vector<T>> tell_all(Communicator& comm, const T& own) {
  std::vector<T> all(static_cast<std::size_t>(comm.size()));
  const std::vector<std::size_t> counts(all.size(), sizeof own);
  MUSTER_RETURN_IF_ERROR(comm.allgather(&own, all.data(), counts, DType::kU8, true));
  return all;
}

Call call_of(Op op, const ReduceTask& task);
// What all ranks say, in rank order. FAILED_PRECONDITION: they call different things.
base::Result<std::vector<Said>> agree(Communicator& comm, const Said& own);
// Of an alltoall: the most bytes that one rank has for another, the same on all ranks. FAILED_PRECONDITION, on all: a
// rank expects other blocks than it is sent.
base::Result<std::size_t> agree_on_blocks(Communicator& comm, Blocks to, Blocks from);

// How the host waits for a device or for NCCL, at a Pace.
//
//   while (!is_over()) MUSTER_RETURN_IF_ERROR(watch.pause());
class Watch {
 public:
  explicit Watch(const Communicator& comm) : comm_(comm) {}
  // Fails when the communicator has ended, by whosever doing.
  base::Status pause() const;

 private:
  const Communicator& comm_;
  const Pace pace_;
};

// Until the device has come to `event`; fails when the communicator has ended meanwhile (a kernel of NCCL's that waits
// for a rank that has ended never comes to an end), or when `route`, if there is one, is not healthy.
base::Status wait_until_done(const Ground& ground, void* event, Route* route = nullptr);

}  // namespace muster::collectives::device
