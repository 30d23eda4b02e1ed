// Ranks of one host, each of whose GPUs maps the others' memory by CUDA IPC; mostly they share one GPU. What one rank
// has for others it leaves where they read it: an allreduce is one kernel of each rank, which reduces its slice of all
// ranks' buffers in one pass and stores it to all (with p ranks the device reads p inputs and writes p outputs, 2 p S
// bytes); a reduce_scatter reduces to this rank alone; broadcast, allgather and alltoall are copies by one kernel.
//
// Buffers of allocate() are read and written where they lie (but alltoall's). Others go piece by piece through a buffer
// of 64 MiB that all ranks have mapped, which is a copy or two more. Processes that share a GPU take turns on it:
// nothing on the device waits for another process, neither a kernel nor a stream, since a rank that is killed would
// leave it waiting for ever. The hosts meet instead, each when its own device has come so far (docs/adr/0029).
#pragma once

#include <memory>
#include <vector>

#include "collectives/device/ipc_memory.h"
#include "collectives/device/staged.h"

namespace muster::collectives::device {

class SharedGpu final : public Staged {
 public:
  static constexpr std::size_t kShare = std::size_t{64} << 20;
  // Collective. `share`: of the buffer for pieces; at least 64 bytes for each rank. FAILED_PRECONDITION, on all ranks:
  // one of them has no memory for it on its GPU; the communicator goes on.
  static base::Result<std::unique_ptr<Route>> make(const Ground& ground, std::size_t share = kShare);

  // Not collective; but where the ranks are good, each waits a moment for the others to have closed what they have
  // mapped of it.
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
  // That all ranks call the same, with this rank's inputs there; `in` and `out` are where others find its buffers.
  base::Result<std::vector<Said>> meet(const Call& call, const IpcMemory::Place& in, const IpcMemory::Place& out = {});
  // Where what rank `rank` has said lies here; 0: in none of allocate()'s buffers.
  base::Result<DeviceAddress> source(const std::vector<Said>& all, std::size_t rank, std::size_t bytes) const;
  // The part for rank `rank` of the buffer that rank `of` has for pieces, which is cut for all ranks.
  DeviceAddress room(std::size_t of, std::size_t rank = 0) const { return rooms_[of] + rank * part_; }

  // The device has done what this rank's stream has.
  base::Status reach();
  // Of what others read of this rank: returns when that is there on all ranks.
  base::Status offer();
  // `work`, which reads what others have offered: returns when it is done on all ranks.
  template <class Work>
  base::Status take(const Work& work);
  base::Status reduce(const std::vector<DeviceAddress>& in, const std::vector<DeviceAddress>& out,
                      const ReduceTask& task, std::size_t count);
  // This rank's slice of an allreduce.
  base::Status reduce_slice(const std::vector<DeviceAddress>& in, const std::vector<DeviceAddress>& out,
                            const ReduceTask& task, std::size_t count);
  // Moves of bytes, by one kernel.
  base::Status move(std::vector<Move> moves);

  Event reached_;
  std::byte* closed_ = nullptr;  // in memory of all ranks: a flag of each, that it has nothing mapped any more
  IpcMemory memory_;
  const std::size_t share_;
  std::vector<DeviceAddress> rooms_;  // for pieces, by rank: share_ bytes each
  std::size_t part_ = 0;              // of a room for each rank, where an operation has one for each
};

}  // namespace muster::collectives::device
