// Runs the operations that are due: batches of host tensors and of GPU tensors, one after the other.
// Read run() first, then the functions that it calls for each batch, then the operations at the end.
#include "collectives/engine/executor.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "collectives/algorithm/slices.h"
#include "collectives/engine/adasum.h"
#include "collectives/engine/shares.h"

namespace muster::collectives::inline engine {
namespace {

Output make_output(const TensorSpec& like, std::size_t rows) {
  Output output;
  output.spec = like;
  output.spec.shape.front() = static_cast<std::int64_t>(rows);
  output.data = std::make_unique_for_overwrite<std::byte[]>(std::max<std::size_t>(output.spec.bytes(), 1));
  return output;
}

std::vector<std::size_t> counts_of(const TensorSpec& tensor, std::vector<std::size_t> rows) {
  for (std::size_t& count : rows) count *= tensor.row_elements();
  return rows;
}

Scale scale_of(const Signature& signature) {
  return {.before = signature.before, .after = signature.after, .divisor = 1};
}

}  // namespace

// Horovod's names, which its users know from timelines.
std::string_view phase_of(Kind kind) {
  constexpr std::string_view kPhases[kKinds] = {"ALLREDUCE", "ALLGATHER", "BROADCAST", "REDUCESCATTER", "ALLTOALL",
                                                "BARRIER",   "JOIN",      "ADASUM",    "BUFFER"};
  return kPhases[static_cast<std::size_t>(kind)];
}

base::Status Executor::run(std::span<const Due> due, std::span<Work* const> own, const Options& options) {
  due_ = due;
  own_ = own;
  timeline_ = options.timeline;
  tensors_left_.assign(due.size(), 0);
  for (std::size_t i = 0; i < due.size(); ++i) {
    if (own[i] == nullptr) continue;
    tensors_left_[i] = own[i]->submission.tensors.size();
    if (due[i].last_joined >= 0) own[i]->ticket->last_joined_ = due[i].last_joined;
    if (!due[i].problem.ok() || due[i].last_joined >= 0) own[i]->ticket->finish(due[i].problem);
  }
  for (const Batch& batch : batches_of(due, options.fusion_bytes, options.fuses_groups)) {
    MUSTER_RETURN_IF_ERROR(run_batch(batch));
  }
  return base::ok_status();
}

void Executor::begin(const Batch& batch, std::string_view phase) {
  if (timeline_ == nullptr) return;
  for (const Piece& piece : batch.pieces) timeline_->begin(due_[piece.due].name, phase);
}

void Executor::end(const Batch& batch) {
  if (timeline_ == nullptr) return;
  for (const Piece& piece : batch.pieces) timeline_->end(due_[piece.due].name);
}

base::Status Executor::run_batch(const Batch& batch) {
  const std::size_t first = batch.pieces.front().due;
  const Due& due = due_[first];
  const Signature& signature = signature_of(due);
  begin(batch, phase_of(signature.kind));
  const base::Status done = signature.is_on_gpu ? do_on_gpu(batch, signature) : do_batch(batch, signature);
  end(batch);
  return done;
}

base::Status Executor::do_batch(const Batch& batch, const Signature& signature) {
  const std::size_t first = batch.pieces.front().due;
  const Due& due = due_[first];
  base::Status done;
  switch (signature.kind) {
    case Kind::kAllreduce:
      return allreduce(batch, signature);
    case Kind::kAdasum:
      return adasum(batch, signature);
    case Kind::kBarrier:
      done = comm_->barrier();
      if (done.ok() && own_[first] != nullptr) own_[first]->ticket->finish(done);
      return done;
    default:
      done = run_whole(due, signature, *own_[first]);  // agree() has checked that no rank has joined
      if (done.ok()) own_[first]->ticket->finish(done);
      return done;
  }
}

// Finishes tickets when the device has finished. If a rank cannot use its GPU, only these tensors fail, on all ranks.
base::Status Executor::do_on_gpu(const Batch& batch, const Signature& signature) {
  std::vector<void*> ready;
  int gpu = -1;
  for (const Piece& piece : batch.pieces) {
    if (own_[piece.due] == nullptr) continue;
    const Submission& own = own_[piece.due]->submission;
    if (own.ready != nullptr) ready.push_back(own.ready->get());
    gpu = std::max(gpu, own.gpu);
  }
  const base::Status attached = on_gpu_.attach(gpu);
  if (!attached.ok() && comm_->failure().code != base::Code::kOk) return attached;
  base::Status done = attached;
  if (attached.ok()) {
    done = run_on_gpu(batch, signature, ready);
    if (!done.ok()) return done;
  }
  if (signature.kind != Kind::kAllreduce) {
    Ticket& ticket = *own_[batch.pieces.front().due]->ticket;
    ticket.finish(done);
    on_gpu_.keep(ticket.release_if_forgotten());
    return base::ok_status();
  }
  for (const Piece& piece : batch.pieces) piece_is_done(piece, done);
  return base::ok_status();
}

base::Status Executor::run_on_gpu(const Batch& batch, const Signature& signature, std::span<void* const> ready) {
  const std::size_t first = batch.pieces.front().due;
  if (signature.kind == Kind::kAllreduce) {
    const DType type = signature.tensors[batch.pieces.front().tensor].type;
    return on_gpu_.allreduce(parts_of(batch), type, signature, ready);
  }
  Work& own = *own_[first];  // no rank has joined
  if (signature.kind == Kind::kBroadcast) return on_gpu_.broadcast(signature, own.submission.tensors, ready);
  if (signature.kind == Kind::kAlltoall) {
    own.ticket->received_splits_ = rows_exchanged(due_[first], comm_->rank()).received;
  }
  return on_gpu_.make(due_[first], own.submission, ready, own.ticket->outputs_);
}

base::Status Executor::run_whole(const Due& due, const Signature& signature, Work& work) {
  switch (signature.kind) {
    case Kind::kAllgather:
      return allgather(due, work);
    case Kind::kBroadcast:
      return broadcast(signature, work);
    case Kind::kReduceScatter:
      return reduce_scatter(signature, work);
    case Kind::kBuffer:
      return share_buffer(signature, work);
    default:
      return alltoall(due, work);
  }
}

void Executor::piece_is_done(const Piece& piece, const base::Status& how) {
  if (own_[piece.due] != nullptr && --tensors_left_[piece.due] == 0) own_[piece.due]->ticket->finish(how);
}

// Returns the places of this rank's tensors of an allreduce, in memory and in the batch.
std::vector<FusedPart> Executor::parts_of(const Batch& batch) const {
  std::vector<FusedPart> parts;
  std::size_t at = 0;
  for (const Piece& piece : batch.pieces) {
    FusedPart part{.begin = at, .bytes = signature_of(due_[piece.due]).tensors[piece.tensor].bytes()};
    if (own_[piece.due] != nullptr) {
      const Tensor& own = own_[piece.due]->submission.tensors[piece.tensor];
      part.in = own.in;
      part.out = own.out;
    }
    parts.push_back(part);
    at += padded(part.bytes);
  }
  return parts;
}

base::Status Executor::allreduce(const Batch& batch, const Signature& signature) {
  const std::string_view algorithm = "MUSTER_ALLREDUCE";
  if (batch.pieces.size() == 1) {
    begin(batch, algorithm);
    const base::Status done = allreduce_one(batch.pieces.front(), signature);
    end(batch);
    return done;
  }
  begin(batch, "MEMCPY_FUSION_BUFFER_AND_MUSTER_ALLREDUCE");
  const DType type = signature.tensors[batch.pieces.front().tensor].type;
  MUSTER_RETURN_IF_ERROR(fused_.run(parts_of(batch), batch.bytes, type, signature.op, scale_of(signature)));
  end(batch);
  for (const Piece& piece : batch.pieces) piece_is_done(piece);
  return base::ok_status();
}

base::Status Executor::adasum(const Batch& batch, const Signature& signature) {
  Work& work = *own_[batch.pieces.front().due];
  for (std::size_t t = 0; t < signature.tensors.size(); ++t) {
    const TensorSpec& tensor = signature.tensors[t];
    const Tensor& own = work.submission.tensors[t];
    MUSTER_RETURN_IF_ERROR(
        collectives::adasum(*comm_, own.in, own.out, tensor.elements(), tensor.type, scale_of(signature)));
  }
  work.ticket->finish(base::ok_status());
  return base::ok_status();
}

base::Status Executor::allreduce_one(const Piece& piece, const Signature& signature) {
  const TensorSpec& tensor = signature.tensors[piece.tensor];
  Tensor own;
  std::unique_ptr<std::byte[]> nothing;
  if (own_[piece.due] != nullptr) {
    own = own_[piece.due]->submission.tensors[piece.tensor];
  } else {
    nothing = std::make_unique<std::byte[]>(std::max<std::size_t>(tensor.bytes(), 1));
    own = {nothing.get(), nothing.get()};
  }
  MUSTER_RETURN_IF_ERROR(
      comm_->allreduce(own.in, own.out, tensor.elements(), tensor.type, signature.op, scale_of(signature)));
  piece_is_done(piece);
  return base::ok_status();
}

base::Status Executor::allgather(const Due& due, Work& work) {
  const Signature& own = work.submission.signature;
  for (std::size_t t = 0; t < own.tensors.size(); ++t) {
    const std::vector<std::size_t> rows = rows_gathered(due, t);
    const std::vector<std::size_t> counts = counts_of(own.tensors[t], rows);
    Output output = make_output(own.tensors[t], std::reduce(rows.begin(), rows.end()));
    MUSTER_RETURN_IF_ERROR(
        comm_->allgather(work.submission.tensors[t].in, output.data.get(), counts, own.tensors[t].type, false));
    work.ticket->outputs_.push_back(std::move(output));
  }
  return base::ok_status();
}

base::Status Executor::broadcast(const Signature& signature, Work& work) {
  for (std::size_t t = 0; t < signature.tensors.size(); ++t) {
    const TensorSpec& tensor = signature.tensors[t];
    const Tensor& own = work.submission.tensors[t];
    if (comm_->rank() == signature.root && own.out != own.in && tensor.bytes() != 0) {
      std::memcpy(own.out, own.in, tensor.bytes());
    }
    MUSTER_RETURN_IF_ERROR(comm_->broadcast(own.out, tensor.elements(), tensor.type, signature.root));
  }
  return base::ok_status();
}

base::Status Executor::reduce_scatter(const Signature& signature, Work& work) {
  for (std::size_t t = 0; t < signature.tensors.size(); ++t) {
    const TensorSpec& tensor = signature.tensors[t];
    const auto rows = rows_scattered(tensor.rows(), static_cast<std::size_t>(comm_->size()));
    const std::vector<std::size_t> counts = counts_of(tensor, rows);
    Output output = make_output(tensor, rows[static_cast<std::size_t>(comm_->rank())]);
    MUSTER_RETURN_IF_ERROR(comm_->reduce_scatter(work.submission.tensors[t].in, output.data.get(), counts, tensor.type,
                                                 signature.op, scale_of(signature)));
    work.ticket->outputs_.push_back(std::move(output));
  }
  return base::ok_status();
}

base::Status Executor::share_buffer(const Signature& signature, Work& work) {
  Output output{.spec = signature.tensors.front()};
  MUSTER_ASSIGN_OR_RETURN(std::byte* const memory, comm_->allocate(output.spec.bytes()));
  if (memory != nullptr) output.shared = comm_->lend(memory);
  work.ticket->outputs_.push_back(std::move(output));
  return base::ok_status();
}

base::Status Executor::alltoall(const Due& due, Work& work) {
  const TensorSpec& tensor = work.submission.signature.tensors.front();
  Exchanged rows = rows_exchanged(due, comm_->rank());
  Output output = make_output(tensor, rows.rows);
  MUSTER_RETURN_IF_ERROR(
      comm_->alltoall(work.submission.tensors.front().in, rows.to, output.data.get(), rows.from, tensor.type, 0));
  work.ticket->received_splits_ = std::move(rows.received);
  work.ticket->outputs_.push_back(std::move(output));
  return base::ok_status();
}

}  // namespace muster::collectives::engine
