// How a communicator is made: its team on this host, what the ranks agree on, links to other hosts, and child
// communicators.
// Read of_world() and make() first, then make_team(), agree() and make_links(), then split() and group().
#include <sched.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/env.h"
#include "collectives/algorithm/host_allreduce.h"
#include "collectives/algorithm/link_speed.h"
#include "collectives/call/communicator_name.h"
#include "collectives/group/communicator.h"
#include "collectives/transport/rank_index.h"

namespace muster::collectives::inline group {
namespace {

constexpr std::size_t kMaxRanks = 1 << 16;
constexpr char kWorldName[] = "world";

}  // namespace

Communicator::Communicator(std::shared_ptr<World> world, std::string name, std::vector<int> members)
    : world_(std::move(world)), name_(std::move(name)), members_(std::move(members)) {
  policy_.deadline = world_->options().deadline;
  const std::string check = base::env_var("MUSTER_CHECK_CALLS").value_or("");
  checks_calls_ = world_->options().checks_calls || (!check.empty() && check != "0");
}

base::Result<std::shared_ptr<Communicator>> Communicator::of_world(std::shared_ptr<World> world, Failure* why) {
  std::vector<int> members;
  for (int rank = 0; rank < world->size(); ++rank) members.push_back(rank);
  auto made = make(std::move(world), kWorldName, std::move(members), why);
  if (made.ok()) (*made)->is_of_world_ = true;
  return made;
}

base::Result<std::shared_ptr<Communicator>> Communicator::make(std::shared_ptr<World> world, std::string name,
                                                               std::vector<int> members, Failure* why) {
  if (members.size() > kMaxRanks) {
    return base::resource_exhausted("a communicator of {} ranks is too large: at most {}", members.size(), kMaxRanks);
  }
  std::shared_ptr<Communicator> made(new Communicator(std::move(world), std::move(name), std::move(members)));
  base::Status ready = made->make_team();
  if (ready.ok()) ready = made->agree();
  if (ready.ok()) return made;
  ready = ready.with_context(fmt::format("communicator {}", made->name_));
  if (why != nullptr) {
    *why = made->team_ ? made->failure() : Failure{};
    if (made->awaited_ >= 0) *why = {ready.code(), made->awaited_, made->world_->member(made->awaited_).host, {}};
    why->message = ready.message();
  }
  return ready;
}

Communicator::~Communicator() {
  worker_.finish();
  messages_.reset();
  if (is_listening_) world_->unlisten(*this);
  if (sink_ != nullptr) {
    world_->unwatch_failure(failure_watch_);
    const std::lock_guard lock(sink_->mutex);
    sink_->record = nullptr;
  }
  if (team_) team_->leave();
  world_->service().forget(name_);
  world_->service().forget(name_of_message_links());
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
    return base::resource_exhausted("{} ranks on one host are too many; libmuster supports {}", ranks, kMaxLocalRanks);
  }
  if (own != 0) {
    const Member& first = world_->member(world_rank(locals.front()));
    // Ranks may start far apart, but they call split() or group() at about the same time.
    const bool is_first = name_ == kWorldName;
    awaited_ = first.rank;
    const WorldOptions& options = world_->options();
    auto fd = request_memory(first.unix_name, name_, is_first ? options.join_deadline : options.deadline, [this] {
      return world_->wait_for_failed(members_, std::chrono::milliseconds(0)).has_value();
    });
    if (!fd.ok()) return blame_for_memory(first, fd.status());
    awaited_ = -1;
    return Segment::attach(std::move(*fd), ranks);
  }
  MUSTER_ASSIGN_OR_RETURN(Segment segment, Segment::create(ranks));
  if (ranks > 1) MUSTER_RETURN_IF_ERROR(world_->service().share(name_, segment.fd()));
  return segment;
}

// If `first` failed because another rank ended, it looks from here as if `first` itself had ended. So find that rank.
base::Status Communicator::blame_for_memory(const Member& first, const base::Status& status) {
  const auto as_of_first = [&] { return status.with_context(fmt::format("rank {} ({})", first.rank, first.host)); };
  if (status.code() != base::Code::kUnavailable) return as_of_first();
  const auto failed = world_->wait_for_failed(members_, World::kEndReportTime);
  const int culprit = failed.value_or(first.rank);
  const auto end = world_->end_of(culprit);
  if (!end) return as_of_first();
  awaited_ = culprit;
  const Member& member = world_->member(culprit);
  return base::unavailable("rank {} ({}, pid {}) {}", culprit, member.host, member.pid, end->cause);
}

base::Status Communicator::read_algorithm() {
  std::string name = world_->options().algorithm;
  if (name.empty()) name = base::env_var("MUSTER_ALGORITHM").value_or("");
  if (name.empty()) return base::ok_status();
  MUSTER_ASSIGN_OR_RETURN(forced_, parse_algorithm(name));
  return base::ok_status();
}

// The ranks of the host agree that all are present, on their number of cores, and on their features.
base::Status Communicator::agree() {
  const base::Status chosen = read_algorithm();
  Lane& own = team_->segment().lane(team_->rank());
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (sched_getaffinity(0, sizeof cpus, &cpus) != 0) CPU_ZERO(&cpus);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &cpus)) own.cpu_mask[cpu / 64].fetch_or(std::uint64_t{1} << (cpu % 64));
  }
  // Listen for ranks that end from here on. listen() also reports those that have ended before.
  world_->listen(*this);
  is_listening_ = true;
  const Call call{.root = forced_ ? static_cast<int>(*forced_) : -1, .op = Op::kSplit};
  const base::Status met = chosen.ok() ? team_->meet(call) : chosen;
  if (team_->rank() == 0) world_->service().unshare(name_);
  if (!met.ok()) {
    const base::Status failed = fail(met);
    const bool is_mismatch = failed.code() == base::Code::kFailedPrecondition;
    return is_mismatch ? failed.with_context("is MUSTER_ALGORITHM the same for all ranks?") : failed;
  }
  int cores = 0;
  for (std::size_t word = 0; word < std::size(own.cpu_mask); ++word) {
    std::uint64_t any = 0;
    for (int i = 0; i < team_->size(); ++i) any |= team_->segment().lane(i).cpu_mask[word].load();
    cores += std::popcount(any);
  }
  policy_.oversubscribed = team_->size() > cores;
  auto readable = can_read_peers(*team_);
  if (!readable.ok()) return fail(readable.status());
  // Measure once, where all ranks take part. Otherwise only some ranks of a later communicator would know the result.
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
  if (hosts_.size() == 1) return base::ok_status();
  make_links();
  const base::Status measured = measure_link_speed();
  return measured.ok() ? measured : fail(measured);
}

// Measures once, in the communicator of the world, for all communicators.
base::Status Communicator::measure_link_speed() {
  if (name_ == kWorldName) {
    LinkSpeed speed;
    if (team_->rank() == 0) {
      MUSTER_ASSIGN_OR_RETURN(speed, measure_links(*slice_exchange_));
    }
    const Call call{.op = Op::kSplit};
    team_->begin();
    team_->set_payload(speed);
    team_->publish(call);
    MUSTER_RETURN_IF_ERROR(team_->wait_for_all(call));
    world_->set_link_speed(team_->rank() == 0 ? speed : team_->payload_as<LinkSpeed>(0));
  }
  layout_.link = world_->link_speed();
  return base::ok_status();
}

void Communicator::make_links() {
  links_ = std::make_unique<PeerLinks>(*world_, *team_, members_, local_members_, name_, rank_, policy_,
                                       RingUse::kCollectives);
  exchange_ = std::make_unique<Exchange>(*links_);
  if (team_->rank() < layout_.least_local_ranks) {
    std::vector<int> same;
    for (const std::vector<int>& host : hosts_) same.push_back(host[rank_index(team_->rank())]);
    slice_peers_ = std::make_unique<SomePeers>(*links_, std::move(same));
    slice_exchange_ = std::make_unique<Exchange>(*slice_peers_);
  }
  sink_ = std::make_shared<AbortSink>();
  sink_->record = &team_->abort();
  failure_watch_ = world_->watch_failure(name_, [sink = sink_](const Failure& failure) {
    const std::lock_guard lock(sink->mutex);
    if (sink->record != nullptr) sink->record->raise(failure);
  });
}

base::Result<std::shared_ptr<Communicator>> Communicator::group(std::span<const int> ranks, Failure* why) {
  std::vector<int> members;
  for (const int rank : ranks) {
    if (rank < 0 || rank >= size()) {
      return base::invalid_argument("rank {}: communicator {} has ranks 0 to {}", rank, name_, size() - 1);
    }
    members.push_back(world_rank(rank));
  }
  if (std::find(members.begin(), members.end(), world_->rank()) == members.end()) {
    return base::invalid_argument("only ranks of a group may make it, and rank {} is not one of them", world_->rank());
  }
  int count = 0;
  {
    const std::lock_guard lock(mutex_);
    count = groups_[members]++;
  }
  std::string name = name_of_group(name_, members, count);
  return make(world_, std::move(name), std::move(members), why);
}

base::Result<std::shared_ptr<Communicator>> Communicator::split(int color, int key, Failure* why,
                                                                const std::function<base::Status()>& with_it) {
  struct Wanted {
    std::int32_t color;
    std::int32_t key;
  };
  const Wanted own{color, key};
  std::vector<Wanted> all(rank_index(size()));
  const std::vector<std::size_t> counts(rank_index(size()), sizeof own / 4);
  // Count the child inside the exchange. If the threads of a rank call split() at the same time, all
  // ranks still agree on the number.
  int child = 0;
  base::Status met = allgather(&own, all.data(), counts, DType::kI32, true, [&] { child = ++children_; });
  if (met.ok() && with_it) met = with_it();
  if (!met.ok()) {
    if (why != nullptr) *why = failure();
    return met;
  }
  if (color < 0) return std::shared_ptr<Communicator>();
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    if (all[rank_index(rank)].color == color) ranks.push_back(rank);
  }
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&all](int a, int b) { return all[rank_index(a)].key < all[rank_index(b)].key; });
  std::vector<int> members;
  for (const int rank : ranks) members.push_back(world_rank(rank));
  return make(world_, name_of_part(name_, child, color), std::move(members), why);
}

}  // namespace muster::collectives::group
