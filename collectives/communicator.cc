#include "collectives/communicator.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
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

namespace muster::collectives {
namespace {

constexpr std::size_t kMaxRanks = 1 << 16;
constexpr std::chrono::milliseconds kNewsTime{800};    // of an agent that saw a rank end, to the ranks of other hosts
constexpr std::size_t kSmall = std::size_t{16} << 10;  // where one rank of a host does all the sending
constexpr char kWorldName[] = "world";
constexpr std::size_t kNameRoom = 60;  // of what the handshake and the shared memory have for it

std::size_t index(int rank) {
  return static_cast<std::size_t>(rank);
}

// One byte for both scales: 0 for none.
std::uint8_t hash_of(Scale scale) {
  if (scale.before == 1 && scale.after == 1) return 0;
  const std::uint64_t mixed = (std::bit_cast<std::uint64_t>(scale.before) * 0x9e3779b97f4a7c15) ^
                              (std::bit_cast<std::uint64_t>(scale.after) * 0xc2b2ae3d27d4eb4f);
  return static_cast<std::uint8_t>((mixed >> 32 | mixed >> 56) | 1);
}

// One block behind the other; call.count becomes the sum of the counts.
std::vector<Slice> blocks_of(std::span<const std::size_t> counts, DType type, Call& call) {
  std::vector<Slice> blocks;
  for (const std::size_t count : counts) {
    blocks.push_back({call.count * size_of(type), count * size_of(type)});
    call.count += count;
  }
  return blocks;
}

std::vector<Slice> equal_blocks(int ranks, std::size_t bytes) {
  std::vector<Slice> blocks;
  for (int rank = 0; rank < ranks; ++rank) blocks.push_back({index(rank) * bytes, bytes});
  return blocks;
}

}  // namespace

Communicator::Communicator(std::shared_ptr<World> world, std::string name, std::vector<int> members)
    : world_(std::move(world)), name_(std::move(name)), members_(std::move(members)) {
  policy_.deadline = world_->options().deadline;
}

base::Result<std::shared_ptr<Communicator>> Communicator::of_world(std::shared_ptr<World> world) {
  std::vector<int> members;
  for (int rank = 0; rank < world->size(); ++rank) members.push_back(rank);
  return make(std::move(world), kWorldName, std::move(members));
}

base::Result<std::shared_ptr<Communicator>> Communicator::make(std::shared_ptr<World> world, std::string name,
                                                               std::vector<int> members) {
  if (members.size() > kMaxRanks || name.size() > kNameRoom) {
    return base::error(base::Code::kResourceExhausted,
                       "communicators are nested too deeply, or are too large ({}, {} ranks)", name, members.size());
  }
  std::shared_ptr<Communicator> made(new Communicator(std::move(world), std::move(name), std::move(members)));
  base::Status ready = made->make_team();
  if (ready.ok()) ready = made->agree();
  if (!ready.ok()) return ready.with_context(fmt::format("communicator {}", made->name_));
  return made;
}

Communicator::~Communicator() {
  worker_.finish();
  if (is_listening_) world_->unlisten(*this);
  if (sink_ != nullptr) {
    world_->unhear_failure(hearing_);
    const std::lock_guard lock(sink_->mutex);
    sink_->record = nullptr;
  }
  if (team_) team_->leave();
}

base::Status Communicator::make_team() {
  const auto own = std::find(members_.begin(), members_.end(), world_->rank());
  MUSTER_CHECK(own != members_.end());
  rank_ = static_cast<int>(own - members_.begin());
  std::map<std::string, std::size_t> places;
  for (int rank = 0; rank < size(); ++rank) {
    const auto [place, is_new] = places.emplace(world_->member(world_rank(rank)).place, hosts_.size());
    if (is_new) hosts_.emplace_back();
    hosts_[place->second].push_back(rank);
  }
  const std::vector<int>& locals = hosts_[places[world_->member(world_->rank()).place]];
  const int own_local = static_cast<int>(std::find(locals.begin(), locals.end(), rank_) - locals.begin());
  MUSTER_ASSIGN_OR_RETURN(Segment segment, make_segment(locals, own_local));
  segment.populate(own_local);
  std::vector<Teammate> mates;
  for (const int rank : locals) {
    const Member& member = world_->member(world_rank(rank));
    mates.push_back({member.rank, member.host, member.pid});
  }
  local_members_ = locals;
  team_.emplace(std::move(segment), own_local, std::move(mates), name_, policy_);
  registered_ = std::make_unique<RegisteredMemory>(*world_, *team_, name_);
  return base::ok_status();
}

base::Result<Segment> Communicator::make_segment(const std::vector<int>& locals, int own) {
  const int ranks = static_cast<int>(locals.size());
  if (ranks > kMaxLocalRanks) {
    return base::error(base::Code::kResourceExhausted, "{} ranks on one host are more than libmuster's {}", ranks,
                       kMaxLocalRanks);
  }
  if (own != 0) {
    const Member& first = world_->member(world_rank(locals.front()));
    auto fd = ask_for_memory(first.unix_name, name_, world_->options().join_deadline);
    if (!fd.ok()) return fd.status().with_context(fmt::format("rank {} ({})", first.rank, first.host));
    return Segment::attach(std::move(*fd), ranks);
  }
  MUSTER_ASSIGN_OR_RETURN(Segment segment, Segment::create(ranks));
  if (ranks > 1) MUSTER_RETURN_IF_ERROR(world_->service().share(name_, segment.fd()));
  return segment;
}

// On the host: that all are there, how many cores they have, and what they may do.
base::Status Communicator::agree() {
  const char* const forced = std::getenv("MUSTER_ALGORITHM");
  if (forced != nullptr && *forced != '\0') {
    MUSTER_ASSIGN_OR_RETURN(forced_, parse_algorithm(forced));
  }
  Lane& own = team_->segment().lane(team_->rank());
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (sched_getaffinity(0, sizeof cpus, &cpus) != 0) CPU_ZERO(&cpus);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &cpus)) own.cpu_mask[cpu / 64].fetch_or(std::uint64_t{1} << (cpu % 64));
  }
  // News of ranks that end from here on, and of those that have.
  world_->listen(*this);
  is_listening_ = true;
  base::Status met = team_->meet(Call{.op = Op::kSplit});
  if (team_->rank() == 0) world_->service().unshare(name_);
  if (!met.ok()) return fail(met);
  int cores = 0;
  for (std::size_t word = 0; word < std::size(own.cpu_mask); ++word) {
    std::uint64_t any = 0;
    for (int i = 0; i < team_->size(); ++i) any |= team_->segment().lane(i).cpu_mask[word].load();
    cores += std::popcount(any);
  }
  policy_.oversubscribed = team_->size() > cores;
  auto readable = can_read_peers(*team_);
  if (!readable.ok()) return fail(readable.status());
  // Measured once, where all ranks take part: other communicators could have ranks that know it and ranks that do not.
  if (name_ == kWorldName && *readable && !policy_.oversubscribed && team_->size() > 1) {
    const auto pays = does_reading_peers_pay(*team_);
    if (!pays.ok()) return fail(pays.status());
    world_->set_reading_peers_pays(*pays);
  }
  readable = *readable && world_->reading_peers_pays();
  layout_ = {.ranks = size(),
             .hosts = static_cast<int>(hosts_.size()),
             .local_ranks = 1,
             .least_local_ranks = size(),
             .oversubscribed = policy_.oversubscribed,
             .can_read_peers = *readable};
  for (const std::vector<int>& host : hosts_) {
    layout_.local_ranks = std::max(layout_.local_ranks, static_cast<int>(host.size()));
    layout_.least_local_ranks = std::min(layout_.least_local_ranks, static_cast<int>(host.size()));
  }
  if (hosts_.size() > 1) make_links();
  return base::ok_status();
}

void Communicator::make_links() {
  links_ = std::make_unique<PeerLinks>(*world_, *team_, members_, local_members_, name_, rank_, policy_);
  exchange_ = std::make_unique<Exchange>(*links_);
  if (team_->rank() < layout_.least_local_ranks) {
    std::vector<int> same;
    for (const std::vector<int>& host : hosts_) same.push_back(host[index(team_->rank())]);
    slice_peers_ = std::make_unique<SomePeers>(*links_, std::move(same));
    slice_exchange_ = std::make_unique<Exchange>(*slice_peers_);
  }
  sink_ = std::make_shared<AbortSink>();
  sink_->record = &team_->abort();
  hearing_ = world_->hear_failure(name_, [sink = sink_](const Failure& failure) {
    const std::lock_guard lock(sink->mutex);
    if (sink->record != nullptr) sink->record->raise(failure);
  });
}

void Communicator::on_ended(const Member& member, bool failed, const std::string& cause) {
  const auto found = std::find(members_.begin(), members_.end(), member.rank);
  if (found == members_.end()) return;
  if (failed) {
    team_->abort().raise({base::Code::kUnavailable, member.rank, member.host,
                          fmt::format("rank {} ({}, pid {}) {}", member.rank, member.host, member.pid, cause)});
    return;
  }
  const int rank = static_cast<int>(found - members_.begin());
  const auto local = std::find(local_members_.begin(), local_members_.end(), rank);
  if (local != local_members_.end()) team_->set_gone(static_cast<int>(local - local_members_.begin()));
}

Failure Communicator::failure() const {
  const AbortRecord& record = team_->abort();
  return record.is_raised() ? record.read() : Failure{};
}

base::Status Communicator::ended() const {
  if (!team_->abort().is_raised()) return base::ok_status();
  const Failure why = failure();
  return {why.code, why.message};
}

// Of a chain of ranks that wait for each other at the deadline: the one at its end.
Failure Communicator::blame_last(Failure failure) {
  if (failure.code != base::Code::kDeadlineExceeded || failure.rank < 0) return failure;
  world_->tell_late(name_, failure.rank);
  const int first = failure.rank;
  for (int hop = 0; hop < size(); ++hop) {
    const std::optional<int> next = world_->late_for(name_, failure.rank);
    if (!next || *next == world_->rank() || *next == first) break;
    failure.rank = *next;
    failure.host = world_->member(*next).host;
  }
  if (failure.rank != first) {
    failure.message +=
        fmt::format("; that one waits for rank {} ({}), which does not come", failure.rank, failure.host);
  }
  return team_->abort().is_raised() ? team_->abort().read() : failure;
}

// Who it was, and why, as far as it is known here.
Failure Communicator::explain(const base::Status& status) {
  if (team_->abort().is_raised()) return team_->abort().read();
  if (team_->failure().message == status.message()) return blame_last(team_->failure());
  Failure failure{status.code(), -1, "", status.message()};
  for (const Exchange* exchange : {exchange_.get(), slice_exchange_.get()}) {
    if (exchange == nullptr || exchange->failed_peer() < 0) continue;
    const Peers& peers = exchange == exchange_.get() ? static_cast<const Peers&>(*links_) : *slice_peers_;
    failure.rank = peers.world_rank(exchange->failed_peer());
    failure.host = world_->member(failure.rank).host;
  }
  if (status.code() == base::Code::kDeadlineExceeded) return blame_last(failure);
  if (status.code() != base::Code::kUnavailable || failure.rank < 0) return failure;
  // A link that ends says no more than that; how its rank ended is news that is on its way.
  const auto end = world_->wait_for_end(failure.rank, kNewsTime);
  if (team_->abort().is_raised()) return team_->abort().read();
  if (end) failure.message = fmt::format("rank {} ({}) {}", failure.rank, failure.host, end->cause);
  return failure;
}

base::Status Communicator::fail(const base::Status& status) {
  const Failure failure = explain(status);
  const bool is_ours = team_->abort().raise(failure);
  if (is_ours && layout_.hosts > 1) world_->tell_failure(name_, failure);
  return {failure.code, failure.message};
}

template <typename Operation>
base::Status Communicator::run(const Operation& operation) {
  if (worker_.is_idle() || worker_.is_current_thread()) return run_now(operation);
  return worker_.submit([this, &operation] { return run_now(operation); })->wait();
}

template <typename Operation>
base::Status Communicator::run_now(const Operation& operation) {
  const std::lock_guard lock(mutex_);
  MUSTER_RETURN_IF_ERROR(ended());
  base::Status status = operation();
  return status.ok() ? status : fail(status);
}

std::shared_ptr<Request> Communicator::start(Worker::Work work) {
  return worker_.submit(std::move(work));
}

std::vector<int> Communicator::survivors() const {
  std::vector<int> left;
  for (int rank = 0; rank < size(); ++rank) {
    if (!world_->end_of(world_rank(rank))) left.push_back(rank);
  }
  return left;
}

base::Result<std::shared_ptr<Communicator>> Communicator::group(std::span<const int> ranks) {
  std::vector<int> members;
  for (const int rank : ranks) {
    if (rank < 0 || rank >= size()) {
      return base::error(base::Code::kInvalidArgument, "there is no rank {} in communicator {} of {}", rank, name_,
                         size());
    }
    members.push_back(world_rank(rank));
  }
  if (std::find(members.begin(), members.end(), world_->rank()) == members.end()) {
    return base::error(base::Code::kInvalidArgument, "a group is made by its own ranks, and rank {} is not one of them",
                       world_->rank());
  }
  int count = 0;
  {
    const std::lock_guard lock(mutex_);
    count = groups_[members]++;
  }
  std::size_t hash = 1469598103934665603U;
  for (const int member : members) hash = (hash ^ index(member)) * 1099511628211U;
  return make(world_, fmt::format("{}.g{:x}.{}", name_, hash & 0xffffffff, count), std::move(members));
}

base::Result<std::shared_ptr<Communicator>> Communicator::split(int color, int key) {
  struct Wanted {
    std::int32_t color;
    std::int32_t key;
  };
  const Wanted own{color, key};
  std::vector<Wanted> all(index(size()));
  const std::vector<std::size_t> counts(index(size()), sizeof own / 4);
  MUSTER_RETURN_IF_ERROR(allgather(&own, all.data(), counts, DType::kI32, true));
  const int child = ++children_;
  if (color < 0) return std::shared_ptr<Communicator>();
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    if (all[index(rank)].color == color) ranks.push_back(rank);
  }
  std::stable_sort(ranks.begin(), ranks.end(), [&all](int a, int b) { return all[index(a)].key < all[index(b)].key; });
  std::vector<int> members;
  for (const int rank : ranks) members.push_back(world_rank(rank));
  return make(world_, fmt::format("{}.{}.{}", name_, child, color), std::move(members));
}

base::Status Communicator::check_root(int root) const {
  if (root >= 0 && root < size()) return base::ok_status();
  return base::error(base::Code::kInvalidArgument, "root {}: communicator {} has ranks 0 to {}", root, name_,
                     size() - 1);
}

base::Status Communicator::barrier() {
  const Call call{.op = Op::kBarrier};
  return run([&] {
    return exchange_ == nullptr ? host_barrier(*team_, call) : dissemination_barrier(*exchange_, next(call));
  });
}

base::Status Communicator::allreduce(const void* in, void* out, std::size_t count, DType type, RedOp op, Scale scale) {
  MUSTER_ASSIGN_OR_RETURN(const ReduceTask reduction, task(in, out, count, type, op, scale));
  const Call call{.count = count, .op = Op::kAllreduce, .type = type, .redop = op, .scale = hash_of(scale)};
  return run([&] { return do_allreduce(call, reduction); });
}

base::Result<ReduceTask> Communicator::task(const void* in, void* out, std::size_t count, DType type, RedOp op,
                                            Scale scale) const {
  if (type == DType::kBool && op == RedOp::kAvg) {
    return base::error(base::Code::kInvalidArgument, "there is no average of bool: use max, min or sum");
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
  Wish wish{.bytes = reduction.bytes(), .type = reduction.type, .forced = forced_};
  last_algorithm_ = choose_allreduce(layout_, wish);
  if (last_algorithm_ == AllreduceAlgorithm::kFlat) return flat_allreduce(*team_, call, reduction);
  // Whether all have registered buffers is known when all have come.
  struct Places {
    Place in;
    Place out;
  };
  team_->begin();
  team_->say(Places{registered_->find(reduction.input, reduction.bytes()),
                    registered_->find(reduction.output, reduction.bytes())});
  team_->publish(call);
  MUSTER_RETURN_IF_ERROR(team_->wait_for_all(call));
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  wish.registered = true;
  for (int i = 0; i < team_->size() && wish.registered; ++i) {
    const Places places = team_->said<Places>(i);
    inputs.push_back(registered_->address(i, places.in, reduction.bytes()));
    outputs.push_back(registered_->address(i, places.out, reduction.bytes()));
    wish.registered = inputs.back() != nullptr && outputs.back() != nullptr;
  }
  last_algorithm_ = choose_allreduce(layout_, wish);
  switch (last_algorithm_) {
    case AllreduceAlgorithm::kDirect:
      return direct_allreduce(*team_, call, reduction, inputs, outputs);
    case AllreduceAlgorithm::kPeerRead:
      return peer_read_allreduce(*team_, call, reduction);
    default:
      return staged_allreduce(*team_, call, reduction, staged_chunk(layout_, reduction.bytes()));
  }
}

base::Status Communicator::linked_allreduce_of(const Call& call, const ReduceTask& reduction) {
  const Operation operation = next(call);
  const Wish wish{
      .bytes = reduction.bytes(), .type = reduction.type, .one_go = wants_one_go(reduction.type), .forced = forced_};
  last_algorithm_ = choose_allreduce(layout_, wish);
  switch (last_algorithm_) {
    case AllreduceAlgorithm::kOneShot:
      return one_shot_allreduce(*exchange_, operation, reduction);
    case AllreduceAlgorithm::kRecursiveDoubling:
      return recursive_doubling_allreduce(*exchange_, operation, reduction);
    case AllreduceAlgorithm::kPairwise:
      return pairwise_allreduce(*exchange_, operation, reduction);
    case AllreduceAlgorithm::kRing:
      return ring_allreduce(*exchange_, operation, reduction);
    default:
      break;
  }
  const int slices = reduction.bytes() <= kSmall ? 1 : layout_.least_local_ranks;
  const Hierarchy hierarchy{*team_, slices, slice_exchange_.get()};
  return hierarchical_allreduce(hierarchy, operation, reduction);
}

base::Status Communicator::reduce(const void* in, void* out, std::size_t count, DType type, RedOp op, int root) {
  MUSTER_RETURN_IF_ERROR(check_root(root));
  MUSTER_ASSIGN_OR_RETURN(const ReduceTask reduction, task(in, out, count, type, op, {}));
  const Call call{.count = count, .root = root, .op = Op::kReduce, .type = type, .redop = op};
  return run([&] {
    if (exchange_ == nullptr) return host_reduce(*team_, call, reduction, root);
    return (reduction.bytes() <= kSmall ? direct_reduce : sliced_reduce)(*exchange_, next(call), reduction, root);
  });
}

base::Status Communicator::reduce_scatter(const void* in, void* out, std::span<const std::size_t> counts, DType type,
                                          RedOp op) {
  MUSTER_ASSIGN_OR_RETURN(const ReduceTask reduction, task(in, out, counts[index(rank_)], type, op, {}));
  Call call{.op = Op::kReduceScatter, .type = type, .redop = op};
  const std::vector<Slice> blocks = blocks_of(counts, type, call);
  return run([&] {
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
    const Slice& block = blocks[index(root)];
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
  return run([&] {
    const std::size_t bytes = count * size_of(type);
    if (exchange_ == nullptr) return host_broadcast(*team_, call, static_cast<std::byte*>(data), bytes, root);
    return (bytes <= kSmall ? tree_broadcast : chain_broadcast)(*exchange_, next(call), data, bytes, root);
  });
}

base::Status Communicator::allgather(const void* in, void* out, std::span<const std::size_t> counts, DType type,
                                     bool same_counts) {
  Call call{.op = same_counts ? Op::kAllgather : Op::kAllgatherv, .type = type};
  const std::vector<Slice> blocks = blocks_of(counts, type, call);
  return run([&] {
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
  return run([&] {
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
  return run([&] {
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
  return run([&] {
    if (exchange_ != nullptr) return pairwise_alltoall(*exchange_, next(call), in, to, out, from);
    return host_alltoall(*team_, call, static_cast<const std::byte*>(in), to, static_cast<std::byte*>(out), from);
  });
}

base::Result<std::byte*> Communicator::allocate(std::size_t bytes) {
  std::byte* memory = nullptr;
  MUSTER_RETURN_IF_ERROR(run([&] {
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

}  // namespace muster::collectives
