// By NCCL, for ranks that have a GPU each. Its communicator is formed by a unique id that travels over ours (never
// through NCCL_COMM_ID), or was split off that of a larger communicator. It is formed and used without blocking, and
// aborted as soon as the communicator has ended: a rank that dies becomes an error and no hang. What NCCL has no type
// or reduction for goes the staged way. Its lines (NCCL_DEBUG) go to the rank's own output.
//
// Results are the same on all ranks, but not from run to run; bool must be 0 or 1; scaled 16-bit floats are rounded
// once for each scale and once for the reduction.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "collectives/device/nccl_api.h"
#include "collectives/device/staged.h"

namespace muster::collectives::device {

// What was split off, for a communicator that is not attached to a GPU yet. Aborted where none takes it over.
struct NcclPart {
  Owned<NcclComm> comm;  // empty: none
  int ordinal = -1;      // of its GPU
};

class NcclRoute final : public Staged {
 public:
  // Collective, as are the next three. FAILED_PRECONDITION, on all ranks: one of them has no memory for it on its GPU;
  // the communicator goes on. One of form() and adopt() follows.
  static base::Result<std::unique_ptr<NcclRoute>> make(const Ground& ground, std::shared_ptr<const NcclApi> nccl);
  // After an error NCCL may still be at it, until abort(): tell the other ranks first.
  base::Status form();
  base::Status adopt(NcclPart part);
  // A part for the ranks with this color, ordered by key, then by rank; a negative color: for none. Empty, on all
  // ranks: one of them cannot. An error leaves this route of no use, as any does.
  base::Result<NcclPart> split(int color, int key);

  ~NcclRoute() override { NcclRoute::abort(); }
  NcclRoute(const NcclRoute&) = delete;
  NcclRoute& operator=(const NcclRoute&) = delete;

  void abort() override;
  base::Status mark_begin() override;
  base::Status health() override;
  base::Status allreduce(const ReduceTask& task) override;
  base::Status broadcast(void* data, std::size_t bytes, int root) override;
  base::Status allgather(const void* in, void* out, std::size_t bytes) override;
  base::Status reduce_scatter(const ReduceTask& task) override;
  base::Status alltoall(const void* in, Blocks to, void* out, Blocks from) override;

 private:
  NcclRoute(const Ground& ground, std::shared_ptr<const NcclApi> nccl) : Staged(ground), nccl_(std::move(nccl)) {}
  // From when on a step takes too long.
  struct Limit {
    explicit Limit(std::chrono::milliseconds allowed)
        : time(allowed), end(std::chrono::steady_clock::now() + allowed) {}
    std::chrono::milliseconds time;
    std::chrono::steady_clock::time_point end;
    bool is_over() const { return std::chrono::steady_clock::now() >= end; }
    base::Status error(const char* what) const;
  };
  Limit of_forming() const;
  Limit of_operation() const;
  base::Status warm_up();
  base::Status warm_up(std::size_t bytes, const Limit& limit);
  base::Status warm_up_pairs(const Limit& limit);
  // That all ranks call the same: NCCL would hang.
  base::Status meet(const Call& call);
  // Until NCCL has done, or enqueued, what it was given on `comm`.
  base::Status settle(NcclComm comm, NcclResult result, const char* what, const Limit& limit);
  // An operation from when it is NCCL's until it is on the devices of all ranks: `call` gives it to NCCL.
  template <class NcclCall>
  base::Status launch(const char* what, const NcclCall& call);
  // The same of this rank's alone.
  template <class NcclCall>
  base::Status enqueue(const char* what, const NcclCall& call);
  base::Result<bool> is_done(NcclComm comm, const char* what) const;
  // An error that NCCL's threads have seen.
  base::Status network() const;
  base::Status scale(const void* in, void* out, std::size_t count, DType type, double factor);
  base::Status enqueue_reduce_scatter(const void* in, const ReduceTask& task);
  base::Status enqueue_reduce_scatter_moved(const ReduceTask& task);
  NcclResult exchange(const void* in, Blocks to, void* out, Blocks from);
  static bool has(const ReduceTask& task);

  const std::shared_ptr<const NcclApi> nccl_;
  NcclComm comm_ = nullptr;
  NcclComm part_ = nullptr;       // while NCCL splits: it writes here
  DeviceMemory room_;             // for inputs that are moved before they are reduced, and to warm up with
  Event begun_;                   // the device has come to an operation
  std::optional<Limit> running_;  // from when on that was seen
};

}  // namespace muster::collectives::device
