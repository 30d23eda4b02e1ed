// Collectives between ranks of one host, which map each other's GPU memory by CUDA IPC. Usually the ranks share one
// GPU. A rank leaves its data where other ranks read it.
//
// An allreduce is one kernel on each rank. It reduces the rank's slice of all buffers in one pass and stores it to all.
// With p ranks the device reads p inputs and writes p outputs of S bytes, so 2 p S bytes. A reduce_scatter stores only
// to its own rank. Broadcast, allgather and alltoall are copies by one kernel.
//
// Buffers of allocate() are used in place, except by alltoall. Other buffers move piece by piece through a mapped
// buffer of 64 MiB, which costs one or two more copies.
//
// Processes that share a GPU take turns on it. So no kernel and no stream waits for another process, because a killed
// rank would leave it waiting forever. The hosts meet instead, each after its own device has done its work
// (docs/adr/0029).
#pragma once

#include <memory>
#include <vector>

#include "collectives/device/ipc_memory.h"
#include "collectives/device/staged.h"

namespace muster::collectives::device {

class SharedGpu final : public Staged {
 public:
  static constexpr std::size_t kShare = std::size_t{64} << 20;
  // Collective. `share` is the size of the buffer for pieces, at least 64 bytes for each rank. FAILED_PRECONDITION, on
  // all ranks, if a rank's GPU has no memory for the buffer. Then the communicator stays usable.
  static base::Result<std::unique_ptr<Route>> make(const Ground& ground, std::size_t share = kShare);

  // Ranks need not call this together. If no rank has failed, it waits briefly until the others unmapped its memory.
  ~SharedGpu() override;
  SharedGpu(const SharedGpu&) = delete;
  SharedGpu& operator=(const SharedGpu&) = delete;

  base::Status allreduce(const ReduceTask& task) override;
  base::Status broadcast(void* data, std::size_t bytes, int root) override;
  base::Status allgather(const void* in, void* out, std::size_t bytes) override;
  base::Status reduce_scatter(const ReduceTask& task) override;
  base::Status alltoall(const void* in, Blocks to, void* out, Blocks from) override;
  base::Result<void*> allocate(std::size_t bytes) override;
  base::Result<DeviceMemory> release(void* memory) override;

 private:
  SharedGpu(const Ground& ground, std::size_t share) : Staged(ground), memory_(ground), share_(share) {}
  base::Status start_sharing();
  bool have_all_closed() const;
  // Checks that all ranks call the same operation, and waits for this rank's inputs. `in` and `out` say where other
  // ranks find its buffers.
  base::Result<std::vector<CallHeader>> meet(const Call& call, const IpcMemory::Place& in,
                                             const IpcMemory::Place& out = {});
  // Returns the address at which the announced buffer of rank `rank` is mapped here; 0 if it is not from allocate().
  base::Result<DeviceAddress> source(const std::vector<CallHeader>& all, std::size_t rank, std::size_t bytes) const;
  // Returns rank `rank`'s part of the buffer for pieces of rank `of`. All ranks share that buffer.
  DeviceAddress room(std::size_t of, std::size_t rank = 0) const { return rooms_[of] + rank * part_; }

  // Waits until the device has done all work on this rank's stream.
  base::Status reach();
  // Publishes the data that other ranks read from this rank. Returns when all ranks have published theirs.
  base::Status offer();
  // Runs `work`, which reads the data that other ranks have published. Returns when all ranks have finished theirs.
  template <class Work>
  base::Status consume(const Work& work);
  base::Status reduce(const std::vector<DeviceAddress>& in, const std::vector<DeviceAddress>& out,
                      const ReduceTask& task, std::size_t count);
  // Reduces this rank's slice of an allreduce.
  base::Status reduce_slice(const std::vector<DeviceAddress>& in, const std::vector<DeviceAddress>& out,
                            const ReduceTask& task, std::size_t count);
  // Moves bytes with one kernel.
  base::Status move(std::vector<Move> moves);

  Event reached_;
  std::byte* closed_ = nullptr;  // a flag per rank, in shared memory: 1 if the rank has unmapped all memory
  IpcMemory memory_;
  const std::size_t share_;
  std::vector<DeviceAddress> rooms_;  // buffers for pieces, by rank, share_ bytes each
  std::size_t part_ = 0;              // one rank's part of a buffer for pieces, for operations that divide it
};

}  // namespace muster::collectives::device
