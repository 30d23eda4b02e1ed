// By NCCL, for ranks that have a GPU each. Its unique id travels over the communicator (never through NCCL_COMM_ID), it
// is formed and used without blocking, and aborted as soon as the communicator has ended: a rank that dies becomes an
// error and no hang. What NCCL has no type or reduction for goes the staged way. Its lines (NCCL_DEBUG) go to the
// rank's own output.
//
// Results are the same on all ranks, but not from run to run; bool must be 0 or 1; scaled 16-bit floats are rounded
// once for each scale and once for the reduction.
#pragma once

#include <memory>

#include "collectives/device/nccl_api.h"
#include "collectives/device/staged.h"

namespace muster::collectives::device {

class NcclRoute final : public Staged {
 public:
  // Collective.
  static base::Result<std::unique_ptr<Route>> make(const Ground& ground, std::shared_ptr<const NcclApi> nccl);
  ~NcclRoute() override { NcclRoute::abort(); }
  NcclRoute(const NcclRoute&) = delete;
  NcclRoute& operator=(const NcclRoute&) = delete;

  void abort() override;
  base::Status allreduce(const ReduceTask& task) override;
  base::Status broadcast(void* data, std::size_t bytes, int root) override;
  base::Status allgather(const void* in, void* out, std::size_t bytes) override;
  base::Status reduce_scatter(const ReduceTask& task) override;
  base::Status alltoall(const void* in, Blocks to, void* out, Blocks from) override;

 private:
  NcclRoute(const Ground& ground, std::shared_ptr<const NcclApi> nccl) : Staged(ground), nccl_(std::move(nccl)) {}
  base::Status form();
  // That all ranks call the same: NCCL would hang.
  base::Status meet(const Call& call);
  // Until NCCL has enqueued what it was given; aborts it when the communicator has ended.
  base::Status settle(NcclResult result, const char* what);
  base::Status scale(const void* in, void* out, std::size_t count, DType type, double factor);
  static bool has(const ReduceTask& task);

  const std::shared_ptr<const NcclApi> nccl_;
  NcclComm comm_ = nullptr;
};

}  // namespace muster::collectives::device
