#include "collectives/engine/executor.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "collectives/algorithm/slices.h"
#include "collectives/kernel/reduce.h"

namespace muster::collectives {
namespace {

std::size_t index(int rank) {
  return static_cast<std::size_t>(rank);
}

Output make_output(const TensorSpec& like, std::size_t rows) {
  Output output;
  output.spec = like;
  output.spec.shape.front() = static_cast<std::int64_t>(rows);
  output.data = std::make_unique_for_overwrite<std::byte[]>(std::max<std::size_t>(output.spec.bytes(), 1));
  return output;
}

Scale scale_of(const Signature& signature) {
  return {.before = signature.before, .after = signature.after, .divisor = 1};
}

}  // namespace

base::Status Executor::run(std::span<const Due> due, std::span<Work* const> own) {
  due_ = due;
  own_ = own;
  tensors_left_.assign(due.size(), 0);
  for (std::size_t i = 0; i < due.size(); ++i) {
    if (own[i] == nullptr) continue;
    tensors_left_[i] = own[i]->submission.tensors.size();
    if (due[i].last_joined >= 0) own[i]->ticket->last_joined_ = due[i].last_joined;
    if (!due[i].problem.ok() || due[i].last_joined >= 0) own[i]->ticket->finish(due[i].problem);
  }
  for (const Batch& batch : batches_of(due, threshold_)) MUSTER_RETURN_IF_ERROR(run_batch(batch));
  return base::ok_status();
}

base::Status Executor::run_batch(const Batch& batch) {
  const std::size_t first = batch.pieces.front().due;
  const Due& due = due_[first];
  const Signature& signature = signature_of(due);
  if (signature.kind == Kind::kAllreduce) return allreduce(batch, signature);
  if (signature.kind == Kind::kBarrier) {
    MUSTER_RETURN_IF_ERROR(comm_->barrier());
    if (own_[first] != nullptr) own_[first]->ticket->finish(base::ok_status());
    return base::ok_status();
  }
  Work& work = *own_[first];  // no rank has joined: agree() has seen to that
  base::Status done;
  switch (signature.kind) {
    case Kind::kAllgather:
      done = allgather(due, work);
      break;
    case Kind::kBroadcast:
      done = broadcast(signature, work);
      break;
    case Kind::kReduceScatter:
      done = reduce_scatter(signature, work);
      break;
    default:
      done = alltoall(due, work);
      break;
  }
  if (done.ok()) work.ticket->finish(done);
  return done;
}

void Executor::piece_is_done(const Piece& piece) {
  if (own_[piece.due] != nullptr && --tensors_left_[piece.due] == 0) {
    own_[piece.due]->ticket->finish(base::ok_status());
  }
}

base::Status Executor::allreduce(const Batch& batch, const Signature& signature) {
  if (batch.pieces.size() == 1) return allreduce_one(batch.pieces.front(), signature);
  MUSTER_ASSIGN_OR_RETURN(std::byte* const packed, buffer(batch.bytes));
  const auto for_each = [&](const auto& visit) {
    std::size_t at = 0;
    for (const Piece& piece : batch.pieces) {
      const std::size_t bytes = signature_of(due_[piece.due]).tensors[piece.tensor].bytes();
      visit(piece, packed + at, bytes);
      at += padded(bytes);
    }
  };
  for_each([&](const Piece& piece, std::byte* to, std::size_t bytes) {
    if (bytes == 0) return;
    if (own_[piece.due] == nullptr) {
      std::memset(to, 0, bytes);
    } else {
      std::memcpy(to, own_[piece.due]->submission.tensors[piece.tensor].in, bytes);
    }
    std::memset(to + bytes, 0, padded(bytes) - bytes);
  });
  const TensorSpec& tensor = signature.tensors[batch.pieces.front().tensor];
  MUSTER_RETURN_IF_ERROR(comm_->allreduce(packed, packed, batch.bytes / size_of(tensor.type), tensor.type, signature.op,
                                          scale_of(signature)));
  for_each([&](const Piece& piece, const std::byte* from, std::size_t bytes) {
    if (own_[piece.due] != nullptr && bytes != 0) {
      std::memcpy(own_[piece.due]->submission.tensors[piece.tensor].out, from, bytes);
    }
    piece_is_done(piece);
  });
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
    std::vector<std::size_t> counts;
    std::size_t rows = 0;
    for (const auto& signature : due.of_ranks) {
      counts.push_back(signature->tensors[t].elements());
      rows += signature->tensors[t].rows();
    }
    Output output = make_output(own.tensors[t], rows);
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

// Rows in order; the first ranks get one more where they do not come out even.
base::Status Executor::reduce_scatter(const Signature& signature, Work& work) {
  const auto ranks = index(comm_->size());
  for (std::size_t t = 0; t < signature.tensors.size(); ++t) {
    const TensorSpec& tensor = signature.tensors[t];
    std::vector<std::size_t> counts;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      counts.push_back((tensor.rows() / ranks + (rank < tensor.rows() % ranks ? 1 : 0)) * tensor.row_elements());
    }
    const std::size_t own = counts[index(comm_->rank())];
    Output output = make_output(tensor, tensor.row_elements() == 0 ? 0 : own / tensor.row_elements());
    MUSTER_RETURN_IF_ERROR(
        comm_->reduce_scatter(work.submission.tensors[t].in, output.data.get(), counts, tensor.type, signature.op));
    if (signature.before != 1 || signature.after != 1) {
      const std::array<const void*, 1> input{output.data.get()};
      reduce(tensor.type, RedOp::kSum, input, output.data.get(), own, scale_of(signature));
    }
    work.ticket->outputs_.push_back(std::move(output));
  }
  return base::ok_status();
}

base::Status Executor::alltoall(const Due& due, Work& work) {
  const Signature& own = work.submission.signature;
  const TensorSpec& tensor = own.tensors.front();
  const std::size_t row_bytes = tensor.row_elements() * size_of(tensor.type);
  std::vector<Slice> to;
  std::vector<Slice> from;
  std::size_t sent = 0;
  std::size_t received = 0;
  for (std::size_t rank = 0; rank < due.of_ranks.size(); ++rank) {
    const auto out_rows = static_cast<std::size_t>(own.splits[rank]);
    const auto in_rows = static_cast<std::size_t>(due.of_ranks[rank]->splits[index(comm_->rank())]);
    to.push_back({sent * row_bytes, out_rows * row_bytes});
    from.push_back({received * row_bytes, in_rows * row_bytes});
    sent += out_rows;
    received += in_rows;
    work.ticket->received_splits_.push_back(static_cast<std::int64_t>(in_rows));
  }
  Output output = make_output(tensor, received);
  MUSTER_RETURN_IF_ERROR(
      comm_->alltoall(work.submission.tensors.front().in, to, output.data.get(), from, tensor.type, 0));
  work.ticket->outputs_.push_back(std::move(output));
  return base::ok_status();
}

// Grows with what is packed; all ranks need it at the same time.
base::Result<std::byte*> Executor::buffer(std::size_t bytes) {
  if (bytes <= buffer_bytes_) return buffer_;
  if (buffer_ != nullptr) MUSTER_RETURN_IF_ERROR(comm_->release(buffer_));
  buffer_ = nullptr;
  buffer_bytes_ = 0;
  const std::size_t wanted = std::min(std::bit_ceil(bytes), std::max(threshold_, bytes));
  MUSTER_ASSIGN_OR_RETURN(buffer_, comm_->allocate(wanted));
  buffer_bytes_ = wanted;
  return buffer_;
}

}  // namespace muster::collectives
