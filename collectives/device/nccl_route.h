// Collectives by NCCL, for ranks with a GPU each. The ranks form NCCL's communicator with a unique id, which they send
// over libmuster's own communicator and never through NCCL_COMM_ID. Or they split it off from the NCCL communicator of
// a larger group. Types and reductions that NCCL lacks use Staged. NCCL's log (NCCL_DEBUG) goes to the rank's own
// output.
//
// Errors: calls to NCCL do not block, and are aborted as soon as the communicator has ended. So the death of a rank
// causes an error, not a hang.
//
// Results are the same on all ranks, but may differ between runs. A bool must be 0 or 1. Scaled 16-bit floats are
// rounded once for each scale and once for the reduction.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "collectives/device/nccl_api.h"
#include "collectives/device/staged.h"

namespace muster::collectives::device {

// A part that was split off for a communicator that is not attached to a GPU yet. It is aborted unless a route adopts
// it.
struct NcclPart {
  Owned<NcclComm> comm;  // empty if this rank has no communicator of NCCL
  int ordinal = -1;      // the GPU's ordinal
};

class NcclRoute final : public Staged {
 public:
  // make(), form(), adopt() and split() are collective. FAILED_PRECONDITION, on all ranks, if a rank's GPU has no
  // memory for the route. The communicator then stays usable. After success the caller must call form() or adopt().
  static base::Result<std::unique_ptr<NcclRoute>> make(const Ground& ground, std::shared_ptr<const NcclApi> nccl);
  // After an error NCCL may still be busy until abort(). So report the error to the other ranks first.
  base::Status form();
  base::Status adopt(NcclPart part);
  // Makes a part for the ranks with this color, ordered by key, then by rank. A negative color joins no part. The
  // result is empty on all ranks if a rank cannot split. After an error this route is unusable, as after any error.
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
  // The time limit of a step.
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
  // Checks that all ranks call the same operation, because NCCL would hang otherwise.
  base::Status meet(const Call& call);
  // Waits until NCCL has done or enqueued the call on `comm` that returned `result`.
  base::Status settle(NcclComm comm, NcclResult result, const char* what, const Limit& limit);
  // Runs an operation: `call` hands it to NCCL. Returns when it is on the devices of all ranks.
  template <class NcclCall>
  base::Status launch(const char* what, const NcclCall& call);
  // Does what launch() does, but waits only for this rank.
  template <class NcclCall>
  base::Status enqueue(const char* what, const NcclCall& call);
  base::Result<bool> is_done(NcclComm comm, const char* what) const;
  // Returns an error that NCCL's threads have noticed.
  base::Status network() const;
  base::Status scale(const void* in, void* out, std::size_t count, DType type, double factor);
  base::Status enqueue_reduce_scatter(const void* in, const ReduceTask& task);
  base::Status enqueue_reduce_scatter_moved(const ReduceTask& task);
  NcclResult exchange(const void* in, Blocks to, void* out, Blocks from);
  static bool has(const ReduceTask& task);

  const std::shared_ptr<const NcclApi> nccl_;
  NcclComm comm_ = nullptr;
  NcclComm part_ = nullptr;       // set while NCCL splits comm_; NCCL writes the new communicator here
  DeviceMemory room_;             // for inputs that are moved before they are reduced, and for warming up
  Event begun_;                   // completes when the device begins an operation
  std::optional<Limit> running_;  // set once begun_ has completed
};

}  // namespace muster::collectives::device
