// The C ABI on GPU memory: a communicator's worker runs operations that take their place in the caller's stream.
// Read attach() and start() first, then the functions, which are in the order of device.h.
#include <algorithm>
#include <memory>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

#include "collectives/api/c_api.h"
#include "collectives/device/device_team.h"
#include "collectives/device/stream_gate.h"
#include "collectives/include/muster/device.h"

using muster::base::Code;
using muster::base::Result;
using muster::base::Status;
using muster::collectives::blocks_of;
using muster::collectives::Communicator;
using muster::collectives::DType;
using muster::collectives::RedOp;
using muster::collectives::ReduceTask;
using muster::collectives::api::AttachedGpu;
using muster::collectives::api::guarded;
using muster::collectives::api::InheritedGpu;
using muster::collectives::api::kMaxCount;
using muster::collectives::api::report;
using muster::collectives::device::device_of;
using muster::collectives::device::DeviceMemory;
using muster::collectives::device::DeviceTeam;
using muster::collectives::device::Event;
using muster::collectives::device::Kernels;
using muster::collectives::device::NcclPart;
using muster::collectives::device::Path;
using muster::collectives::device::Route;
using muster::collectives::device::StreamGate;

struct muster::collectives::api::AttachedGpu {
  std::mutex calls;  // start() holds it, so that streams and the worker get operations in the same order
  std::shared_ptr<StreamGate> gate;
  std::unique_ptr<DeviceTeam> team;  // must end before the gate
};
struct muster::collectives::api::InheritedGpu {
  NcclPart nccl;
};

namespace {

// If the GPU or the path differs, the inherited part is not used and is freed.
Result<std::shared_ptr<AttachedGpu>> attach(Communicator& on, int device, std::shared_ptr<InheritedGpu> inherited) {
  auto made = std::make_shared<AttachedGpu>();
  NcclPart part = inherited == nullptr ? NcclPart{} : std::move(inherited->nccl);
  MUSTER_ASSIGN_OR_RETURN(made->team, DeviceTeam::attach(on, device, std::move(part)));
  auto gate = StreamGate::make(made->team->shared_gpu());
  if (!gate.ok()) {  // cancel, because the other ranks assume that all are attached
    const auto& own = on.world().member(on.world().rank());
    on.cancel({gate.status().code(), own.rank, own.host, gate.status().message()});
    return gate.status();
  }
  made->gate = std::move(*gate);
  return made;
}

Status check_attached(const muster_comm& comm) {
  if (!comm.communicator->world().is_of_this_process()) {
    return {Code::kInvalidArgument, "a forked child process cannot take part in collectives"};
  }
  if (comm.gpu != nullptr) return {};
  return muster::base::invalid_argument("communicator {} is not attached to a GPU: call muster_device_attach() first",
                                        comm.communicator->name());
}

Status check_device_types(muster_dtype type, int op) {
  if (static_cast<unsigned>(type) >= muster::collectives::kDTypes ||
      static_cast<unsigned>(op) >= muster::collectives::kRedOps) {
    return muster::base::invalid_argument("unknown data type {} or reduction {}", static_cast<int>(type), op);
  }
  if (type == MUSTER_BOOL && op == MUSTER_AVG) {
    return {Code::kInvalidArgument, "bool has no average; use max, min or sum"};
  }
  return {};
}

// Checks that `data` is memory of the attached GPU. Otherwise the device would fail in a way that ends all of CUDA in
// this process.
Status check_data(const muster_comm& comm, const void* data, std::size_t count, muster_dtype type) {
  if (count > kMaxCount) return muster::base::invalid_argument("{} elements are too many; the limit is 2^44", count);
  if (count == 0) return {};
  const auto& gpu = comm.gpu->team->gpu();
  const int device = data == nullptr ? -1 : device_of(gpu, data);
  const std::size_t size = size_of(static_cast<DType>(type));
  if (device == gpu.ordinal() && reinterpret_cast<std::uintptr_t>(data) % size == 0) return {};
  if (device == gpu.ordinal()) {
    return muster::base::invalid_argument("a buffer's address is not a multiple of {}, the size of its elements", size);
  }
  return muster::base::invalid_argument("a buffer of {} elements is not memory of GPU {} (communicator {})", count,
                                        gpu.ordinal(), comm.communicator->name());
}

Status check(const muster_comm& comm, const void* in, const void* out, std::size_t count, muster_dtype type,
             int op = MUSTER_SUM) {
  MUSTER_RETURN_IF_ERROR(check_attached(comm));
  MUSTER_RETURN_IF_ERROR(check_device_types(type, op));
  MUSTER_RETURN_IF_ERROR(check_data(comm, in, count, type));
  return check_data(comm, out, count, type);
}

Result<std::vector<std::size_t>> counts_of(const muster_comm& comm, const size_t* counts) {
  const Communicator& on = *comm.communicator;
  if (counts == nullptr) {
    return muster::base::invalid_argument("the counts of the ranks are NULL (communicator {})", on.name());
  }
  std::vector<std::size_t> copy(counts, counts + on.size());
  if (std::ranges::max(copy) <= kMaxCount) return copy;
  return muster::base::invalid_argument("{} elements are too many; the limit is 2^44", std::ranges::max(copy));
}

// Runs `operation` of the route between the work that `stream` has now and its later work.
template <typename Operation>
muster_code start(muster_comm* comm, const Status& checked, void* stream, muster_request** request,
                  muster_error** error, const Operation& operation) {
  if (!checked.ok()) return report(checked, nullptr, error);
  const std::shared_ptr<AttachedGpu> gpu = comm->gpu;
  // Two threads may call at once. Without this lock, a stream that is held for the later operation could be marked
  // before the earlier one. The two operations would then wait for each other in the worker's queue.
  const std::lock_guard lock(gpu->calls);
  auto mark = gpu->team->mark(stream);
  if (!mark.ok()) return report(mark.status(), nullptr, error);
  auto hold = gpu->gate->hold(stream);
  if (!hold.ok()) return report(hold.status(), nullptr, error);
  const auto ready = std::make_shared<Event>(std::move(*mark));
  auto work = [gpu, ready, held = std::move(*hold), operation]() mutable {
    void* const events[] = {ready->get()};
    const Status done = gpu->team->run(events, [&](Route& route) {
      const Status enqueued = operation(route);
      return enqueued.ok() ? held->release_behind(gpu->team->stream()) : enqueued;
    });
    held.reset();
    return done;
  };
  *request = new muster_request{comm->communicator, comm->communicator->start(std::move(work))};
  return MUSTER_OK;
}

ReduceTask task_of(const void* in, void* out, std::size_t count, muster_dtype type, muster_op op, double before,
                   double after) {
  return {.type = static_cast<DType>(type),
          .op = static_cast<RedOp>(op),
          .scale = {.before = before, .after = after},
          .input = in,
          .output = out,
          .count = count};
}

}  // namespace

// Runs on the communicator's worker, between its operations. So all ranks split NCCL's communicator in the same order.
muster::base::Result<std::unique_ptr<muster_comm>> muster::collectives::api::split(const muster_comm& comm, int color,
                                                                                   int key, Failure* why) {
  auto made = std::make_unique<muster_comm>();
  if (comm.gpu == nullptr) {
    MUSTER_ASSIGN_OR_RETURN(made->communicator, comm.communicator->split(color, key, why));
  } else {
    MUSTER_RETURN_IF_ERROR(check_attached(comm));
    auto work = [&comm, &made, color, key, why] {
      MUSTER_ASSIGN_OR_RETURN(auto both, comm.gpu->team->split(color, key, why));
      made->communicator = std::move(both.communicator);
      made->inherited = std::make_shared<InheritedGpu>(InheritedGpu{std::move(both.nccl)});
      return Status();
    };
    MUSTER_RETURN_IF_ERROR(comm.communicator->start(std::move(work))->wait());
  }
  if (made->communicator == nullptr) return std::unique_ptr<muster_comm>();
  return made;
}

// NCCL's communicator is aborted, because ending it in good order would wait for ranks that do other things. But this
// rank's data may still be on its way to another GPU, so the ranks meet first.
void muster::collectives::api::detach_from_gpu(const muster_comm& comm) {
  if (comm.gpu == nullptr) return;
  Communicator& on = *comm.communicator;
  const bool is_nccl = comm.gpu->team->path() == Path::kNccl;
  (void)guarded(nullptr, [&on, is_nccl] {
    // Wait for started operations first, since their time does not count as waiting for other ranks. Do so even if
    // requests are not freed yet, because the worker must not be the GPU's last owner.
    (void)on.start([] { return Status(); })->wait();
    if (!is_nccl || on.failure().code != Code::kOk) return MUSTER_OK;
    const auto met = on.start([&on] { return on.barrier(); });
    if (on.world().shutdown_budget().wait([&met](auto time) { return met->wait_for(time).has_value(); }))
      return MUSTER_OK;
    const auto& own = on.world().member(on.world().rank());
    on.cancel({Code::kAborted, own.rank, own.host,
               fmt::format("rank {} ({}) has freed communicator {}", own.rank, own.host, on.name())});
    (void)met->wait();
    return MUSTER_OK;
  });
}

muster_code muster_device_attach(muster_comm* comm, int device, muster_error** error) {
  return guarded(error, [&] {
    Communicator& on = *comm->communicator;
    if (comm->gpu != nullptr) {
      return report(muster::base::invalid_argument("communicator {} is already attached to GPU {}", on.name(),
                                                   comm->gpu->team->gpu().ordinal()),
                    nullptr, error);
    }
    auto made = attach(on, device, std::exchange(comm->inherited, nullptr));
    if (!made.ok()) return report(made.status(), &on, error);
    comm->gpu = std::move(*made);
    return MUSTER_OK;
  });
}

const char* muster_device_path(const muster_comm* comm) {
  return comm->gpu == nullptr ? nullptr : name_of(comm->gpu->team->path()).data();
}

const char* muster_device_path_reason(const muster_comm* comm) {
  return comm->gpu == nullptr ? nullptr : comm->gpu->team->why().c_str();
}

int muster_device_count(void) {
  return DeviceTeam::count_gpus();
}

const char* muster_device_kernels(void) {
  return Kernels::image().empty() ? "" : "sm_80 sm_90 ptx_80";
}

muster_code muster_device_buffer_alloc(muster_comm* comm, size_t bytes, void** data, muster_error** error) {
  *data = nullptr;
  return guarded(error, [&] {
    const Status attached = check_attached(*comm);
    if (!attached.ok()) return report(attached, nullptr, error);
    // Allocate on the worker, because the operations that look up the buffers run there, too.
    const auto made = std::make_shared<void*>(nullptr);
    auto work = [gpu = comm->gpu, bytes, made] {
      return gpu->team->run({}, [&](Route& route) {
        MUSTER_ASSIGN_OR_RETURN(*made, route.allocate(bytes));
        return Status();
      });
    };
    const Status done = comm->communicator->start(std::move(work))->wait();
    if (done.ok()) *data = *made;
    return report(done, comm->communicator.get(), error);
  });
}

muster_code muster_device_buffer_free(muster_comm* comm, void* data, muster_error** error) {
  return guarded(error, [&] {
    const Status attached = check_attached(*comm);
    if (!attached.ok()) return report(attached, nullptr, error);
    // The worker takes the memory out of use. This thread frees it, because freeing may wait for streams that the
    // worker releases.
    const auto freed = std::make_shared<DeviceMemory>();
    auto work = [gpu = comm->gpu, data, freed] {
      MUSTER_ASSIGN_OR_RETURN(*freed, gpu->team->route().release(data));
      if (!gpu->team->is_quiet()) freed->leave();  // freeing would wait for the failed work
      return Status();
    };
    return report(comm->communicator->start(std::move(work))->wait(), nullptr, error);
  });
}

muster_code muster_allreduce_on_stream(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                                       muster_op op, double prescale, double postscale, void* stream,
                                       muster_request** request, muster_error** error) {
  *request = nullptr;
  return guarded(error, [&] {
    return start(comm, check(*comm, in, out, count, type, op), stream, request, error,
                 [task = task_of(in, out, count, type, op, prescale, postscale)](Route& route) {
                   return route.allreduce(task);
                 });
  });
}

muster_code muster_broadcast_on_stream(muster_comm* comm, void* data, size_t count, muster_dtype type, int root,
                                       void* stream, muster_request** request, muster_error** error) {
  *request = nullptr;
  return guarded(error, [&] {
    Status checked = check(*comm, data, data, count, type);
    if (checked.ok() && (root < 0 || root >= comm->communicator->size())) {
      checked = muster::base::invalid_argument("root {}: communicator {} has ranks 0 to {}", root,
                                               comm->communicator->name(), comm->communicator->size() - 1);
    }
    return start(comm, checked, stream, request, error,
                 [=](Route& route) { return route.broadcast(data, count * muster_dtype_size(type), root); });
  });
}

muster_code muster_allgather_on_stream(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                                       void* stream, muster_request** request, muster_error** error) {
  *request = nullptr;
  return guarded(error, [&] {
    return start(comm, check(*comm, in, out, count, type), stream, request, error,
                 [=](Route& route) { return route.allgather(in, out, count * muster_dtype_size(type)); });
  });
}

muster_code muster_reduce_scatter_on_stream(muster_comm* comm, const void* in, void* out, size_t count,
                                            muster_dtype type, muster_op op, void* stream, muster_request** request,
                                            muster_error** error) {
  *request = nullptr;
  return guarded(error, [&] {
    return start(comm, check(*comm, in, out, count, type, op), stream, request, error,
                 [task = task_of(in, out, count, type, op, 1, 1)](Route& route) { return route.reduce_scatter(task); });
  });
}

muster_code muster_alltoallv_on_stream(muster_comm* comm, const void* in, const size_t* send_counts, void* out,
                                       const size_t* recv_counts, muster_dtype type, void* stream,
                                       muster_request** request, muster_error** error) {
  *request = nullptr;
  return guarded(error, [&] {
    auto to = counts_of(*comm, send_counts);
    auto from = counts_of(*comm, recv_counts);
    Status checked = to.ok() ? from.status() : to.status();
    if (checked.ok()) checked = check_attached(*comm);
    if (checked.ok()) checked = check_device_types(type, MUSTER_SUM);
    if (!checked.ok()) return report(checked, nullptr, error);
    checked = check_data(*comm, in, std::reduce(to->begin(), to->end()), type);
    if (checked.ok()) checked = check_data(*comm, out, std::reduce(from->begin(), from->end()), type);
    return start(comm, checked, stream, request, error,
                 [=, to = blocks_of(*to, static_cast<DType>(type)), from = blocks_of(*from, static_cast<DType>(type))](
                     Route& route) { return route.alltoall(in, to, out, from); });
  });
}
