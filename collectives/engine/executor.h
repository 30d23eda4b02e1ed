// Runs the operations that are due, on a communicator that nothing else uses.
// Thread: one.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "collectives/engine/batches.h"
#include "collectives/engine/device_batches.h"
#include "collectives/engine/fused.h"
#include "collectives/engine/ticket.h"
#include "collectives/engine/timeline.h"
#include "collectives/group/communicator.h"

namespace muster::collectives::inline engine {

// Returns an operation's name in the timeline, such as "ALLREDUCE".
std::string_view phase_of(Kind kind);

class Executor {
 public:
  struct Work {
    Submission submission;  // empty for a rank that has joined
    std::shared_ptr<Ticket> ticket;
    std::int64_t submitted_ns = 0;  // status_now(); 0 if there is no status page
  };

  // All options except the timeline must be the same on all ranks.
  struct Options {
    std::size_t fusion_bytes = 0;
    bool fuses_groups = true;
    Timeline* timeline = nullptr;  // null means no timeline
  };

  explicit Executor(std::shared_ptr<Communicator> communicator)
      : comm_(communicator), fused_(communicator), on_gpu_(std::move(communicator)) {}

  // `own[i]` is this rank's submission of due[i], or null. Finishes the tickets of these submissions. An error means
  // that the communicator has ended. The caller must then finish the remaining tickets.
  base::Status run(std::span<const Due> due, std::span<Work* const> own, const Options& options);

 private:
  base::Status run_batch(const Batch& batch);
  base::Status run_whole(const Due& due, const Signature& signature, Work& work);
  base::Status allreduce(const Batch& batch, const Signature& signature);
  base::Status do_batch(const Batch& batch, const Signature& signature);
  base::Status do_on_gpu(const Batch& batch, const Signature& signature);
  base::Status run_on_gpu(const Batch& batch, const Signature& signature, std::span<void* const> ready);
  std::vector<FusedPart> parts_of(const Batch& batch) const;
  base::Status allreduce_one(const Piece& piece, const Signature& signature);
  base::Status adasum(const Batch& batch, const Signature& signature);
  base::Status allgather(const Due& due, Work& work);
  base::Status broadcast(const Signature& signature, Work& work);
  base::Status reduce_scatter(const Signature& signature, Work& work);
  base::Status alltoall(const Due& due, Work& work);
  base::Status share_buffer(const Signature& signature, Work& work);
  // Finishes the ticket when the last tensor of its submission is done.
  void piece_is_done(const Piece& piece, const base::Status& how = base::ok_status());
  // Marks a phase of all tensors of the batch in the timeline.
  void begin(const Batch& batch, std::string_view phase);
  void end(const Batch& batch);

  const std::shared_ptr<Communicator> comm_;
  FusedAllreduce fused_;
  DeviceBatches on_gpu_;
  Timeline* timeline_ = nullptr;
  std::span<const Due> due_;
  std::span<Work* const> own_;
  std::vector<std::size_t> tensors_left_;  // indexed as due
};

}  // namespace muster::collectives::engine
