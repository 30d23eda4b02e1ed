// The C ABI's operations: checks arguments and converts their types.
// Read the checks first, then the operations, then the functions, which are in the order of muster.h.
#include <memory>
#include <utility>
#include <vector>

#include "collectives/api/c_api.h"

using muster::base::Status;
using muster::collectives::blocks_of;
using muster::collectives::Communicator;
using muster::collectives::DType;
using muster::collectives::RedOp;
using muster::collectives::Request;
using muster::collectives::Slice;
using muster::collectives::api::call;
using muster::collectives::api::guarded;
using muster::collectives::api::kMaxCount;
using muster::collectives::api::report;

namespace {

using Counts = std::vector<std::size_t>;

DType dtype_of(muster_dtype type) {
  return static_cast<DType>(type);
}
RedOp redop_of(muster_op op) {
  return static_cast<RedOp>(op);
}

Status check_types(muster_dtype type, int op = MUSTER_SUM) {
  if (static_cast<unsigned>(type) < muster::collectives::kDTypes &&
      static_cast<unsigned>(op) < muster::collectives::kRedOps) {
    return {};
  }
  return muster::base::invalid_argument("unknown data type {} or reduction {}", static_cast<int>(type), op);
}

Status check_buffer(const Communicator& on, const void* data, std::size_t count) {
  if (count > kMaxCount) {
    return muster::base::invalid_argument("{} elements are too many; the limit is 2^44 (communicator {})", count,
                                          on.name());
  }
  if (data != nullptr || count == 0) return {};
  return muster::base::invalid_argument("a buffer of {} elements is NULL (communicator {})", count, on.name());
}

Status check(const Communicator& on, const void* in, const void* out, std::size_t count, muster_dtype type,
             int op = MUSTER_SUM) {
  MUSTER_RETURN_IF_ERROR(check_types(type, op));
  MUSTER_RETURN_IF_ERROR(check_buffer(on, in, count));
  return check_buffer(on, out, count);
}

// Copies the caller's counts[size]. INVALID_ARGUMENT if they are NULL or too large.
muster::base::Result<Counts> copy_counts(const Communicator& on, const size_t* counts) {
  if (counts == nullptr) {
    return muster::base::invalid_argument("the counts of the ranks are NULL (communicator {})", on.name());
  }
  Counts copy(counts, counts + on.size());
  for (const std::size_t count : copy) MUSTER_RETURN_IF_ERROR(check_buffer(on, &copy, count));
  return copy;
}

std::size_t sum_of(const Counts& counts) {
  std::size_t sum = 0;
  for (const std::size_t count : counts) sum += count;
  return sum;
}

Counts same_counts(const Communicator& on, std::size_t count) {
  return Counts(static_cast<std::size_t>(on.size()), count);
}

// The following operations run at once for a blocking call, or later on the communicator's worker.

Status allreduce(Communicator& on, const void* in, void* out, size_t count, muster_dtype type, muster_op op,
                 double before, double after) {
  MUSTER_RETURN_IF_ERROR(check(on, in, out, count, type, op));
  return on.allreduce(in, out, count, dtype_of(type), redop_of(op), {.before = before, .after = after});
}

Status reduce(Communicator& on, const void* in, void* out, size_t count, muster_dtype type, muster_op op, int root) {
  MUSTER_RETURN_IF_ERROR(check(on, in, on.rank() == root ? out : in, count, type, op));
  return on.reduce(in, out, count, dtype_of(type), redop_of(op), root);
}

Status reduce_scatter(Communicator& on, const void* in, void* out, const Counts& counts, muster_dtype type,
                      muster_op op) {
  MUSTER_RETURN_IF_ERROR(check_types(type, op));
  MUSTER_RETURN_IF_ERROR(check_buffer(on, in, sum_of(counts)));
  MUSTER_RETURN_IF_ERROR(check_buffer(on, out, counts[static_cast<std::size_t>(on.rank())]));
  return on.reduce_scatter(in, out, counts, dtype_of(type), redop_of(op));
}

Status broadcast(Communicator& on, void* data, size_t count, muster_dtype type, int root) {
  MUSTER_RETURN_IF_ERROR(check(on, data, data, count, type));
  return on.broadcast(data, count, dtype_of(type), root);
}

Status allgather(Communicator& on, const void* in, void* out, const Counts& counts, muster_dtype type, bool is_same) {
  MUSTER_RETURN_IF_ERROR(check_types(type));
  MUSTER_RETURN_IF_ERROR(check_buffer(on, in, counts[static_cast<std::size_t>(on.rank())]));
  MUSTER_RETURN_IF_ERROR(check_buffer(on, out, sum_of(counts)));
  return on.allgather(in, out, counts, dtype_of(type), is_same);
}

Status gather(Communicator& on, const void* in, void* out, size_t count, muster_dtype type, int root) {
  MUSTER_RETURN_IF_ERROR(check(on, in, on.rank() == root ? out : in, count, type));
  return on.gather(in, out, count, dtype_of(type), root);
}

Status scatter(Communicator& on, const void* in, void* out, size_t count, muster_dtype type, int root) {
  MUSTER_RETURN_IF_ERROR(check(on, on.rank() == root ? in : out, out, count, type));
  return on.scatter(in, out, count, dtype_of(type), root);
}

Status alltoall(Communicator& on, const void* in, void* out, size_t count, muster_dtype type) {
  MUSTER_RETURN_IF_ERROR(check(on, in, out, count, type));
  const std::vector<Slice> blocks = blocks_of(same_counts(on, count), dtype_of(type));
  return on.alltoall(in, blocks, out, blocks, dtype_of(type), count);
}

Status alltoallv(Communicator& on, const void* in, const Counts& to, void* out, const Counts& from, muster_dtype type) {
  MUSTER_RETURN_IF_ERROR(check_types(type));
  MUSTER_RETURN_IF_ERROR(check_buffer(on, in, sum_of(to)));
  MUSTER_RETURN_IF_ERROR(check_buffer(on, out, sum_of(from)));
  return on.alltoall(in, blocks_of(to, dtype_of(type)), out, blocks_of(from, dtype_of(type)), dtype_of(type), 0);
}

muster_code make_request(std::shared_ptr<Communicator> on, std::shared_ptr<Request> started, muster_request** request) {
  *request = new muster_request{std::move(on), std::move(started)};
  return MUSTER_OK;
}

template <typename Operation>
muster_code start(muster_comm* comm, muster_request** request, muster_error** error, const Operation& operation) {
  *request = nullptr;
  return guarded(error, [&] {
    const std::shared_ptr<Communicator>& communicator = comm->communicator;
    // Capture the raw pointer, because the communicator owns the worker that runs this.
    Communicator* const own = communicator.get();
    return make_request(communicator, communicator->start([own, operation] { return operation(*own); }), request);
  });
}

// Does what start() does, but copies the counts, because the caller may free its own.
template <typename Operation>
muster_code start_with(muster_comm* comm, const size_t* counts, muster_request** request, muster_error** error,
                       const Operation& operation) {
  *request = nullptr;
  return guarded(error, [&] {
    auto copy = copy_counts(*comm->communicator, counts);
    if (!copy.ok()) return report(copy.status(), nullptr, error);
    return start(comm, request, error,
                 [operation, copy = std::move(*copy)](Communicator& on) { return operation(on, copy); });
  });
}

}  // namespace

muster_code muster_barrier(muster_comm* comm, muster_error** error) {
  return call(comm, error, [](Communicator& on) { return on.barrier(); });
}
muster_code muster_allreduce(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                             muster_op op, muster_error** error) {
  return call(comm, error, [&](Communicator& on) { return allreduce(on, in, out, count, type, op, 1, 1); });
}
muster_code muster_allreduce_scaled(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                                    muster_op op, double prescale, double postscale, muster_error** error) {
  return call(comm, error,
              [&](Communicator& on) { return allreduce(on, in, out, count, type, op, prescale, postscale); });
}
muster_code muster_reduce(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type, muster_op op,
                          int root, muster_error** error) {
  return call(comm, error, [&](Communicator& on) { return reduce(on, in, out, count, type, op, root); });
}
muster_code muster_reduce_scatter(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                                  muster_op op, muster_error** error) {
  return call(comm, error,
              [&](Communicator& on) { return reduce_scatter(on, in, out, same_counts(on, count), type, op); });
}
muster_code muster_reduce_scatterv(muster_comm* comm, const void* in, void* out, const size_t* counts,
                                   muster_dtype type, muster_op op, muster_error** error) {
  return call(comm, error, [&](Communicator& on) {
    MUSTER_ASSIGN_OR_RETURN(const Counts copy, copy_counts(on, counts));
    return reduce_scatter(on, in, out, copy, type, op);
  });
}
muster_code muster_broadcast(muster_comm* comm, void* data, size_t count, muster_dtype type, int root,
                             muster_error** error) {
  return call(comm, error, [&](Communicator& on) { return broadcast(on, data, count, type, root); });
}
muster_code muster_allgather(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                             muster_error** error) {
  return call(comm, error,
              [&](Communicator& on) { return allgather(on, in, out, same_counts(on, count), type, true); });
}
muster_code muster_allgatherv(muster_comm* comm, const void* in, void* out, const size_t* counts, muster_dtype type,
                              muster_error** error) {
  return call(comm, error, [&](Communicator& on) {
    MUSTER_ASSIGN_OR_RETURN(const Counts copy, copy_counts(on, counts));
    return allgather(on, in, out, copy, type, false);
  });
}
muster_code muster_gather(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type, int root,
                          muster_error** error) {
  return call(comm, error, [&](Communicator& on) { return gather(on, in, out, count, type, root); });
}
muster_code muster_scatter(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type, int root,
                           muster_error** error) {
  return call(comm, error, [&](Communicator& on) { return scatter(on, in, out, count, type, root); });
}
muster_code muster_alltoall(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                            muster_error** error) {
  return call(comm, error, [&](Communicator& on) { return alltoall(on, in, out, count, type); });
}
muster_code muster_alltoallv(muster_comm* comm, const void* in, const size_t* send_counts, void* out,
                             const size_t* recv_counts, muster_dtype type, muster_error** error) {
  return call(comm, error, [&](Communicator& on) {
    MUSTER_ASSIGN_OR_RETURN(const Counts to, copy_counts(on, send_counts));
    MUSTER_ASSIGN_OR_RETURN(const Counts from, copy_counts(on, recv_counts));
    return alltoallv(on, in, to, out, from, type);
  });
}

muster_code muster_ibarrier(muster_comm* comm, muster_request** request, muster_error** error) {
  return start(comm, request, error, [](Communicator& on) { return on.barrier(); });
}
muster_code muster_iallreduce(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                              muster_op op, muster_request** request, muster_error** error) {
  return start(comm, request, error, [=](Communicator& on) { return allreduce(on, in, out, count, type, op, 1, 1); });
}
muster_code muster_iallreduce_scaled(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                                     muster_op op, double prescale, double postscale, muster_request** request,
                                     muster_error** error) {
  return start(comm, request, error,
               [=](Communicator& on) { return allreduce(on, in, out, count, type, op, prescale, postscale); });
}
muster_code muster_ireduce(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type, muster_op op,
                           int root, muster_request** request, muster_error** error) {
  return start(comm, request, error, [=](Communicator& on) { return reduce(on, in, out, count, type, op, root); });
}
muster_code muster_ireduce_scatter(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                                   muster_op op, muster_request** request, muster_error** error) {
  return start(comm, request, error,
               [=](Communicator& on) { return reduce_scatter(on, in, out, same_counts(on, count), type, op); });
}
muster_code muster_ireduce_scatterv(muster_comm* comm, const void* in, void* out, const size_t* counts,
                                    muster_dtype type, muster_op op, muster_request** request, muster_error** error) {
  return start_with(comm, counts, request, error,
                    [=](Communicator& on, const Counts& copy) { return reduce_scatter(on, in, out, copy, type, op); });
}
muster_code muster_ibroadcast(muster_comm* comm, void* data, size_t count, muster_dtype type, int root,
                              muster_request** request, muster_error** error) {
  return start(comm, request, error, [=](Communicator& on) { return broadcast(on, data, count, type, root); });
}
muster_code muster_iallgather(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                              muster_request** request, muster_error** error) {
  return start(comm, request, error,
               [=](Communicator& on) { return allgather(on, in, out, same_counts(on, count), type, true); });
}
muster_code muster_iallgatherv(muster_comm* comm, const void* in, void* out, const size_t* counts, muster_dtype type,
                               muster_request** request, muster_error** error) {
  return start_with(comm, counts, request, error,
                    [=](Communicator& on, const Counts& copy) { return allgather(on, in, out, copy, type, false); });
}
muster_code muster_igather(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type, int root,
                           muster_request** request, muster_error** error) {
  return start(comm, request, error, [=](Communicator& on) { return gather(on, in, out, count, type, root); });
}
muster_code muster_iscatter(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type, int root,
                            muster_request** request, muster_error** error) {
  return start(comm, request, error, [=](Communicator& on) { return scatter(on, in, out, count, type, root); });
}
muster_code muster_ialltoall(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                             muster_request** request, muster_error** error) {
  return start(comm, request, error, [=](Communicator& on) { return alltoall(on, in, out, count, type); });
}
muster_code muster_ialltoallv(muster_comm* comm, const void* in, const size_t* send_counts, void* out,
                              const size_t* recv_counts, muster_dtype type, muster_request** request,
                              muster_error** error) {
  *request = nullptr;
  return guarded(error, [&] {
    auto from = copy_counts(*comm->communicator, recv_counts);
    if (!from.ok()) return report(from.status(), nullptr, error);
    return start_with(comm, send_counts, request, error,
                      [=, from = std::move(*from)](Communicator& on, const Counts& to) {
                        return alltoallv(on, in, to, out, from, type);
                      });
  });
}

muster_code muster_send(muster_comm* comm, const void* data, size_t count, muster_dtype type, int to, int tag,
                        muster_error** error) {
  return call(comm, error, [&](Communicator& on) {
    MUSTER_RETURN_IF_ERROR(check(on, data, data, count, type));
    return on.send(data, count, dtype_of(type), to, tag);
  });
}
muster_code muster_recv(muster_comm* comm, void* data, size_t count, muster_dtype type, int from, int tag,
                        muster_error** error) {
  return call(comm, error, [&](Communicator& on) {
    MUSTER_RETURN_IF_ERROR(check(on, data, data, count, type));
    return on.receive(data, count, dtype_of(type), from, tag);
  });
}
muster_code muster_isend(muster_comm* comm, const void* data, size_t count, muster_dtype type, int to, int tag,
                         muster_request** request, muster_error** error) {
  *request = nullptr;
  return guarded(error, [&] {
    const std::shared_ptr<Communicator>& on = comm->communicator;
    const Status checked = check(*on, data, data, count, type);
    if (!checked.ok()) return report(checked, nullptr, error);
    return make_request(on, on->start_send(data, count, dtype_of(type), to, tag), request);
  });
}
muster_code muster_irecv(muster_comm* comm, void* data, size_t count, muster_dtype type, int from, int tag,
                         muster_request** request, muster_error** error) {
  *request = nullptr;
  return guarded(error, [&] {
    const std::shared_ptr<Communicator>& on = comm->communicator;
    const Status checked = check(*on, data, data, count, type);
    if (!checked.ok()) return report(checked, nullptr, error);
    return make_request(on, on->start_receive(data, count, dtype_of(type), from, tag), request);
  });
}
