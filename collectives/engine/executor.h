// Does what is due, on a communicator that it alone uses. Allreduces that go together are packed into a buffer that the
// ranks of a host share, so that packing is all the copying there is. One thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "collectives/communicator.h"
#include "collectives/engine/batches.h"
#include "collectives/engine/ticket.h"

namespace muster::collectives {

class Executor {
 public:
  struct Work {
    Submission submission;  // empty for a rank that has joined
    std::shared_ptr<Ticket> ticket;
  };

  Executor(std::shared_ptr<Communicator> communicator, std::size_t threshold)
      : comm_(std::move(communicator)), threshold_(threshold) {}

  // `own[i]` is what this rank has submitted of due[i]; null: nothing. Finishes their tickets. An error means that the
  // communicator has ended; tickets that are not done then are left to the caller.
  base::Status run(std::span<const Due> due, std::span<Work* const> own);

 private:
  base::Status run_batch(const Batch& batch);
  base::Status allreduce(const Batch& batch, const Signature& signature);
  base::Status allreduce_one(const Piece& piece, const Signature& signature);
  base::Status allgather(const Due& due, Work& work);
  base::Status broadcast(const Signature& signature, Work& work);
  base::Status reduce_scatter(const Signature& signature, Work& work);
  base::Status alltoall(const Due& due, Work& work);
  base::Result<std::byte*> buffer(std::size_t bytes);
  void piece_is_done(const Piece& piece);

  const std::shared_ptr<Communicator> comm_;
  const std::size_t threshold_;
  std::span<const Due> due_;
  std::span<Work* const> own_;
  std::vector<std::size_t> tensors_left_;  // by due
  std::byte* buffer_ = nullptr;
  std::size_t buffer_bytes_ = 0;
};

}  // namespace muster::collectives
