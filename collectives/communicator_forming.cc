// How a communicator comes about: its members on this host, what they agree on, the links to other hosts, and the
// communicators that are made out of one.
#include <sched.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>

#include "collectives/algorithm/host_allreduce.h"
#include "collectives/communicator.h"

namespace muster::collectives {
namespace {

constexpr std::size_t kMaxRanks = 1 << 16;
constexpr char kWorldName[] = "world";
constexpr std::size_t kNameRoom = 60;  // of what the handshake and the shared memory have for it

std::size_t index(int rank) {
  return static_cast<std::size_t>(rank);
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
  messages_.reset();
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
  readable = *readable && (world_->reading_peers_pays() || forced_ == AllreduceAlgorithm::kPeerRead);
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
  links_ = std::make_unique<PeerLinks>(*world_, *team_, members_, local_members_, name_, rank_, policy_,
                                       RingUse::kCollectives);
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

}  // namespace muster::collectives
