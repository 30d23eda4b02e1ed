// A path of collectives on GPU buffers; see path.h. All ranks of a communicator make it together. All ranks call every
// operation, in the same order.
//
// An operation enqueues its work on the rank's stream. The host waits for other ranks and may wait for the device. The
// device may still be busy when the call returns.
//
// Thread: one at a time.
// Errors: after an error the caller must end the communicator; DeviceTeam does so.
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

// State that all routes of a rank use; it outlives them.
struct Ground {
  Communicator& comm;
  std::shared_ptr<const Gpu> gpu;
  const Kernels* kernels;  // null if this rank has no kernels
  void* stream;
};

class Route {
 public:
  virtual ~Route() = default;
  // Called when the communicator has ended. It must stop work on the device that waits for other ranks. Only NCCL's
  // kernels wait for other ranks.
  virtual void abort() {}
  // Marks the begin of an operation. Later work on the rank's stream belongs to it.
  virtual base::Status mark_begin() { return base::ok_status(); }
  // Called while the host waits for the device. An error means that this route's work will not finish.
  virtual base::Status health() { return base::ok_status(); }
  // Makes the rank's stream wait for work that this route has put on its own streams.
  virtual base::Status gather() { return base::ok_status(); }
  // Reduces task.count elements. The route divides for kAvg. Every operation here allows in-place buffers.
  virtual base::Status allreduce(const ReduceTask& task) = 0;
  virtual base::Status broadcast(void* data, std::size_t bytes, int root) = 0;
  // Each rank contributes `bytes` bytes. The blocks lie one behind the other.
  virtual base::Status allgather(const void* in, void* out, std::size_t bytes) = 0;
  // The input has size * task.count elements. Each rank gets the reduction of its own task.count elements.
  virtual base::Status reduce_scatter(const ReduceTask& task) = 0;
  // Sends one block to each rank and receives one from each. Blocks do not overlap.
  virtual base::Status alltoall(const void* in, Blocks to, void* out, Blocks from) = 0;

  // Collective. Returns the device memory that is fastest for this route. `bytes` may differ between ranks.
  virtual base::Result<void*> allocate(std::size_t bytes) = 0;
  // Not collective. Returns the memory. The caller must free it on a thread that may wait for all streams of the GPU.
  // Empty if other ranks may have it mapped; then it stays until the route ends. INVALID_ARGUMENT if the memory is not
  // from allocate().
  virtual base::Result<DeviceMemory> release(void* memory) = 0;
};

// A rank sends this header to all ranks before an operation, so that they detect different operations before data
// moves. The header also says where other ranks find the sender's buffers; region 0 means nowhere. NcclRoute uses
// in_region as a flag instead, 1 for yes and 0 for no. The header is trivially copyable.
struct CallHeader {
  Call call;
  std::uint32_t in_region = 0;
  std::uint32_t out_region = 0;
  std::uint64_t in_offset = 0;
  std::uint64_t out_offset = 0;
};
static_assert(sizeof(CallHeader) == 40);

// Sends `own` to all ranks and returns all ranks' values, by rank. Collective.
template <class T>
base::Result<std::vector<T>> gather_all(Communicator& comm, const T& own) {
  std::vector<T> all(static_cast<std::size_t>(comm.size()));
  const std::vector<std::size_t> counts(all.size(), sizeof own);
  MUSTER_RETURN_IF_ERROR(comm.allgather(&own, all.data(), counts, DType::kU8, true));
  return all;
}

Call call_of(Op op, const ReduceTask& task);
// Returns the headers of all ranks, by rank. FAILED_PRECONDITION if they call different operations.
base::Result<std::vector<CallHeader>> agree(Communicator& comm, const CallHeader& own);
// Returns the most bytes that any rank of an alltoall sends to another, the same on all ranks. FAILED_PRECONDITION, on
// all ranks, if a rank expects other block sizes than it is sent.
base::Result<std::size_t> agree_on_blocks(Communicator& comm, Blocks to, Blocks from);

// Lets the host wait for the device or for NCCL, at a Pace.
//
//   while (!is_over()) MUSTER_RETURN_IF_ERROR(watch.pause());
class Watch {
 public:
  explicit Watch(const Communicator& comm) : comm_(comm) {}
  // Returns an error once the communicator has ended, whatever ended it.
  base::Status pause() const;

 private:
  const Communicator& comm_;
  const Pace pace_;
};

// Waits until the device has reached `event`. Fails when the communicator ends, because a kernel of NCCL's that waits
// for a lost rank never finishes. Also fails when `route` (may be null) is not healthy.
base::Status wait_until_done(const Ground& ground, void* event, Route* route = nullptr);

}  // namespace muster::collectives::device
