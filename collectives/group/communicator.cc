// The operations of a communicator: argument checks, and the choice of the algorithm.
// Read run(), run_now() and run_alone() first, since every operation goes through them, then the operations from
// barrier() on.
#include "collectives/group/communicator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <new>
#include <string_view>
#include <utility>

#include "collectives/algorithm/allgather.h"
#include "collectives/algorithm/allreduce.h"
#include "collectives/algorithm/alltoall.h"
#include "collectives/algorithm/barrier.h"
#include "collectives/algorithm/broadcast.h"
#include "collectives/algorithm/hierarchical.h"
#include "collectives/algorithm/host_allreduce.h"
#include "collectives/algorithm/reduce_scatter.h"
#include "collectives/algorithm/rooted.h"
#include "collectives/call/fingerprint.h"
#include "collectives/transport/rank_index.h"

namespace muster::collectives::inline group {
namespace {

constexpr std::size_t kSmall = std::size_t{16} << 10;  // up to this size, algorithms for small vectors are used

constexpr std::size_t kMaxRegistered = std::size_t{1} << 46;  // times the ranks of a host, it does not overflow

std::int32_t fingerprint_of(Scale scale) {
  return as_root(
      hash_of(std::array{std::bit_cast<std::uint64_t>(scale.before), std::bit_cast<std::uint64_t>(scale.after)}));
}

// The names of operations, as the status page holds them.
struct OperationName {
  char text[sizeof base::RankPage::world_operation] = {};
};
const auto kOperationNames = [] {
  std::array<OperationName, static_cast<std::size_t>(Op::kAllocate) + 1> names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string_view name = name_of(static_cast<Op>(i));
    name.copy(names[i].text, sizeof names[i].text - 1);
  }
  return names;
}();

// Lays the blocks out one behind the other. call.count becomes the sum of the counts. If the counts differ, call.root
// becomes their fingerprint, since other counts may have the same sum.
std::vector<Slice> blocks_of(std::span<const std::size_t> counts, DType type, Call& call) {
  std::vector<Slice> blocks;
  for (const std::size_t count : counts) {
    blocks.push_back({call.count * size_of(type), count * size_of(type)});
    call.count += count;
  }
  if (std::ranges::adjacent_find(counts, std::not_equal_to()) != counts.end()) call.root = as_root(hash_of(counts));
  return blocks;
}

std::vector<Slice> equal_blocks(int ranks, std::size_t bytes) {
  std::vector<Slice> blocks;
  for (int rank = 0; rank < ranks; ++rank) blocks.push_back({rank_index(rank) * bytes, bytes});
  return blocks;
}

}  // namespace

template <typename Operation>
base::Status Communicator::run(const Call& call, const Operation& operation) {
  if (worker_.is_idle() || worker_.is_current_thread()) return run_now(call, operation);
  return worker_.submit([this, &call, &operation] { return run_now(call, operation); })->wait();
}

template <typename Operation>
base::Status Communicator::run_now(const Call& call, const Operation& operation) {
  const std::lock_guard lock(mutex_);
  base::RankPage* const page = is_hidden_ ? nullptr : status_page();
  if (page == nullptr) return run_alone(call, operation);
  const std::int64_t now = status_coarse_now();
  if (is_of_world_) {
    status_begin_world(*page, kOperationNames[static_cast<std::size_t>(call.op)].text, ++shown_, now);
    arrivals_.arrive(*page, shown_, now);
  } else {
    status_begin(*page, name_of(call.op), {}, now);
  }
  base::Status status = run_alone(call, operation);
  if (is_of_world_) {
    status_end_world(*page, shown_);
  } else {
    status_end(*page);
  }
  return status;
}

template <typename Operation>
base::Status Communicator::run_alone(const Call& call, const Operation& operation) {
  base::Status status = ended();
  if (!status.ok()) return detach(std::move(status));
  try {
    if (exchange_ != nullptr) status = team_->begin_step(++steps_, call);
    if (status.ok()) status = operation();
  } catch (const std::bad_alloc&) {
    // The operation's rounds and messages are half done. So the communicator ends, and the other ranks get the reason.
    status =
        base::resource_exhausted("rank {} ran out of memory in an operation of communicator {}", world_->rank(), name_);
  }
  return status.ok() ? status : detach(fail(status));
}

std::shared_ptr<Request> Communicator::start(Worker::Work work) {
  return worker_.submit(std::move(work));
}

base::Status Communicator::check_root(int root) const {
  if (root >= 0 && root < size()) return base::ok_status();
  return base::invalid_argument("root {}: communicator {} has ranks 0 to {}", root, name_, size() - 1);
}

// In an operation with a root, not all ranks receive something over links. If two ranks name different roots, they
// notice it only in the next operation. With MUSTER_CHECK_CALLS all ranks meet before the operation.
base::Status Communicator::check_call(const Call& call) {
  if (!checks_calls_ || exchange_ == nullptr) return base::ok_status();
  return dissemination_barrier(*exchange_, next(call));
}

base::Status Communicator::barrier() {
  const Call call{.op = Op::kBarrier};
  return run(call, [&] {
    return exchange_ == nullptr ? host_barrier(*team_, call) : dissemination_barrier(*exchange_, next(call));
  });
}

base::Status Communicator::allreduce(const void* in, void* out, std::size_t count, DType type, RedOp op, Scale scale) {
  MUSTER_ASSIGN_OR_RETURN(const ReduceTask reduction, task(in, out, count, type, op, scale));
  Call call{.count = count, .op = Op::kAllreduce, .type = type, .redop = op};
  if (scale.before != 1 || scale.after != 1) {
    call.scale = 1;
    call.root = fingerprint_of(scale);
  }
  return run(call, [&] { return do_allreduce(call, reduction); });
}

base::Result<ReduceTask> Communicator::task(const void* in, void* out, std::size_t count, DType type, RedOp op,
                                            Scale scale) const {
  if (type == DType::kBool && op == RedOp::kAvg) {
    return base::invalid_argument("bool has no average; use max, min or sum");
  }
  if (op == RedOp::kAvg) scale.divisor = static_cast<std::uint32_t>(size());
  return ReduceTask{type, op == RedOp::kAvg ? RedOp::kSum : op, scale, in, out, count};
}

base::Status Communicator::do_allreduce(const Call& call, const ReduceTask& reduction) {
  if (layout_.hosts > 1) return linked_allreduce_of(call, reduction);
  if (size() > 1) return host_allreduce(call, reduction);
  const std::array<const void*, 1> inputs{reduction.input};
  collectives::reduce(reduction.type, reduction.op, inputs, reduction.out(), reduction.count, reduction.scale);
  return base::ok_status();
}

base::Status Communicator::host_allreduce(const Call& call, const ReduceTask& reduction) {
  AllreduceCriteria criteria{.bytes = reduction.bytes(), .type = reduction.type, .forced = forced_};
  last_algorithm_ = choose_allreduce(layout_, criteria);
  criteria.registered = true;
  const bool may_be_direct = choose_allreduce(layout_, criteria) == AllreduceAlgorithm::kDirect;
  if (!may_be_direct && last_algorithm_ == AllreduceAlgorithm::kFlat) return flat_allreduce(*team_, call, reduction);
  // Whether all ranks have registered buffers is known only after all have arrived.
  struct Places {
    Place in;
    Place out;
  };
  team_->begin();
  team_->set_payload(Places{registered_->find(reduction.input, reduction.bytes()),
                            registered_->find(reduction.output, reduction.bytes())});
  team_->publish(call);
  MUSTER_RETURN_IF_ERROR(team_->wait_for_all(call));
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  for (int i = 0; i < team_->size() && criteria.registered; ++i) {
    const Places places = team_->payload_as<Places>(i);
    inputs.push_back(registered_->address(i, places.in, reduction.bytes()));
    outputs.push_back(registered_->address(i, places.out, reduction.bytes()));
    criteria.registered = inputs.back() != nullptr && outputs.back() != nullptr;
  }
  last_algorithm_ = choose_allreduce(layout_, criteria);
  switch (last_algorithm_) {
    case AllreduceAlgorithm::kDirect:
      return direct_allreduce(*team_, call, reduction, inputs, outputs);
    case AllreduceAlgorithm::kPeerRead:
      return peer_read_allreduce(*team_, call, reduction);
    case AllreduceAlgorithm::kFlat:
      return flat_allreduce(*team_, call, reduction);
    default:
      return staged_allreduce(*team_, call, reduction);
  }
}

base::Status Communicator::linked_allreduce_of(const Call& call, const ReduceTask& reduction) {
  const Operation operation = next(call);
  AllreduceCriteria criteria = criteria_of(reduction);
  criteria.forced = forced_;
  last_algorithm_ = choose_allreduce(layout_, criteria);
  if (last_algorithm_ != AllreduceAlgorithm::kHierarchical) {
    return linked_allreduce(last_algorithm_, *exchange_, operation, reduction);
  }
  const int slices = reduction.bytes() <= kSmall ? 1 : layout_.least_local_ranks;
  const Hierarchy hierarchy{*team_, slices, layout_.link, slice_exchange_.get()};
  return hierarchical_allreduce(hierarchy, operation, reduction);
}

base::Status Communicator::reduce(const void* in, void* out, std::size_t count, DType type, RedOp op, int root) {
  MUSTER_RETURN_IF_ERROR(check_root(root));
  MUSTER_ASSIGN_OR_RETURN(const ReduceTask reduction, task(in, out, count, type, op, {}));
  const Call call{.count = count, .root = root, .op = Op::kReduce, .type = type, .redop = op};
  return run(call, [&] {
    MUSTER_RETURN_IF_ERROR(check_call(call));
    if (exchange_ == nullptr) return host_reduce(*team_, call, reduction, root);
    return (reduction.bytes() <= kSmall ? direct_reduce : sliced_reduce)(*exchange_, next(call), reduction, root);
  });
}

base::Status Communicator::reduce_scatter(const void* in, void* out, std::span<const std::size_t> counts, DType type,
                                          RedOp op, Scale scale) {
  MUSTER_ASSIGN_OR_RETURN(const ReduceTask reduction, task(in, out, counts[rank_index(rank_)], type, op, scale));
  Call call{.op = Op::kReduceScatter, .type = type, .redop = op};
  const std::vector<Slice> blocks = blocks_of(counts, type, call);
  return run(call, [&] {
    return exchange_ == nullptr ? host_reduce_scatter(*team_, call, reduction, blocks)
                                : linked_reduce_scatter(call, reduction, blocks);
  });
}

base::Status Communicator::linked_reduce_scatter(const Call& call, const ReduceTask& reduction, Blocks blocks) {
  const auto is_like_first = [&](const Slice& block) { return block.size == blocks.front().size; };
  if (std::all_of(blocks.begin(), blocks.end(), is_like_first)) {
    return pairwise_reduce_scatter(*exchange_, next(call), reduction);
  }
  for (int root = 0; root < size(); ++root) {
    const Slice& block = blocks[rank_index(root)];
    ReduceTask part = reduction;
    part.input = reduction.in() + block.begin;
    part.count = block.size / reduction.element();
    MUSTER_RETURN_IF_ERROR(sliced_reduce(*exchange_, next(call), part, root));
  }
  return base::ok_status();
}

base::Status Communicator::broadcast(void* data, std::size_t count, DType type, int root) {
  MUSTER_RETURN_IF_ERROR(check_root(root));
  const Call call{.count = count, .root = root, .op = Op::kBroadcast, .type = type};
  return run(call, [&] {
    MUSTER_RETURN_IF_ERROR(check_call(call));
    const std::size_t bytes = count * size_of(type);
    if (exchange_ == nullptr) return host_broadcast(*team_, call, static_cast<std::byte*>(data), bytes, root);
    return (bytes <= kSmall ? tree_broadcast : chain_broadcast)(*exchange_, next(call), data, bytes, root);
  });
}

base::Status Communicator::allgather(const void* in, void* out, std::span<const std::size_t> counts, DType type,
                                     bool same_counts, const std::function<void()>& with_it) {
  Call call{.op = same_counts ? Op::kAllgather : Op::kAllgatherv, .type = type};
  const std::vector<Slice> blocks = blocks_of(counts, type, call);
  return run(call, [&] {
    if (with_it) with_it();
    if (exchange_ == nullptr) {
      return host_allgather(*team_, call, static_cast<const std::byte*>(in), static_cast<std::byte*>(out), blocks);
    }
    const bool is_small = call.count * size_of(type) <= kSmall;
    return (is_small ? direct_allgather : ring_allgather)(*exchange_, next(call), in, out, blocks);
  });
}

base::Status Communicator::gather(const void* in, void* out, std::size_t count, DType type, int root) {
  MUSTER_RETURN_IF_ERROR(check_root(root));
  const Call call{.count = count, .root = root, .op = Op::kGather, .type = type};
  return run(call, [&] {
    MUSTER_RETURN_IF_ERROR(check_call(call));
    if (exchange_ != nullptr) {
      return collectives::gather(*exchange_, next(call), in, out, equal_blocks(size(), count * size_of(type)), root);
    }
    return host_gather(*team_, call, static_cast<const std::byte*>(in), static_cast<std::byte*>(out),
                       count * size_of(type), root);
  });
}

base::Status Communicator::scatter(const void* in, void* out, std::size_t count, DType type, int root) {
  MUSTER_RETURN_IF_ERROR(check_root(root));
  const Call call{.count = count, .root = root, .op = Op::kScatter, .type = type};
  return run(call, [&] {
    MUSTER_RETURN_IF_ERROR(check_call(call));
    if (exchange_ != nullptr) {
      return collectives::scatter(*exchange_, next(call), in, out, equal_blocks(size(), count * size_of(type)), root);
    }
    return host_scatter(*team_, call, static_cast<const std::byte*>(in), static_cast<std::byte*>(out),
                        count * size_of(type), root);
  });
}

base::Status Communicator::alltoall(const void* in, Blocks to, void* out, Blocks from, DType type,
                                    std::size_t same_count) {
  const Call call{.count = same_count, .op = same_count != 0 ? Op::kAlltoall : Op::kAlltoallv, .type = type};
  return run(call, [&] {
    if (exchange_ != nullptr) return pairwise_alltoall(*exchange_, next(call), in, to, out, from);
    return host_alltoall(*team_, call, static_cast<const std::byte*>(in), to, static_cast<std::byte*>(out), from);
  });
}

base::Result<std::byte*> Communicator::allocate(std::size_t bytes) {
  if (bytes > kMaxRegistered) {
    return base::resource_exhausted("registered buffers of {} bytes are too large; the limit is 2^46", bytes);
  }
  std::byte* memory = nullptr;
  MUSTER_RETURN_IF_ERROR(run(Call{.op = Op::kAllocate}, [&] {
    auto made = registered_->allocate(bytes);
    if (made.ok()) memory = *made;
    return made.status();
  }));
  return memory;
}

base::Status Communicator::release(std::byte* memory) {
  const std::lock_guard lock(mutex_);
  return registered_->release(memory);
}

std::shared_ptr<std::byte> Communicator::lend(std::byte* memory) {
  const std::lock_guard lock(mutex_);
  return registered_->lend(memory);
}

std::byte* Communicator::registered(int local_rank, const std::byte* memory, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  return registered_->address(local_rank, registered_->find(memory, bytes), bytes);
}

}  // namespace muster::collectives::group
