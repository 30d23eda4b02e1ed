// The part of JobRunner's core for ranks that ranks of the job spawn (MPI_Comm_spawn).
// Read it in this order: spawn, begin_world, world_added and spawned_started, settle_world, world_failed.
//
// An agent's request becomes a world. The launcher answers the request when all hosts know the world and all its ranks
// have started. Until then it holds back the ends of these ranks. A world that fails to start does not affect the job's
// outcome.
#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "launcherd/run/job_core.h"

namespace muster::launcherd::inline run {

namespace {

v1::LauncherMessage spawn_answer(std::uint64_t id, const std::string& world, const std::string& error) {
  v1::LauncherMessage message;
  message.mutable_spawn_answer()->set_id(id);
  message.mutable_spawn_answer()->set_world(world);
  message.mutable_spawn_answer()->set_error(error);
  return message;
}

}  // namespace

void JobRunner::Core::spawn_requested(JobHost& host, const v1::SpawnRequest& request) {
  const base::Status spawned = spawn(host, request);
  if (!spawned.ok()) agents_->send(host.agent, spawn_answer(request.id(), "", spawned.message()));
}

base::Status JobRunner::Core::spawn(JobHost& host, const v1::SpawnRequest& request) {
  if (!options_.may_spawn) {
    return base::error(base::Code::kFailedPrecondition,
                       "a job of launcherd cannot get more ranks: start it with hvdrun, without launcherd");
  }
  if (is_ending(phase_) || host.phase != HostPhase::kLaunched) {
    return base::error(base::Code::kFailedPrecondition, "the job is ending");
  }
  MUSTER_ASSIGN_OR_RETURN(const std::vector<int> host_of,
                          place_spawned(request, spawn_hosts(), job_.placement.oversubscribe));
  if (next_number_ > model::kMaxRanks - static_cast<int>(host_of.size())) {
    return base::error(base::Code::kResourceExhausted, "the job has had {} ranks: no more are numbered", next_number_);
  }
  const SpawnedRanks ranks{.name = fmt::format("muster-{}-{}-{}", options_.job_id, options_.attempt, next_number_),
                           .first = next_number_,
                           .host_of = host_of};
  std::vector<HostFacts> facts(placement_.hosts.size());
  for (const JobHost& each : hosts_) {
    if (each.placed >= 0) facts[static_cast<std::size_t>(each.placed)] = each.facts;
  }
  MUSTER_ASSIGN_OR_RETURN(std::vector<v1::AddWorld> messages,
                          plan_spawned(job_, placement_, facts, {options_.job_id, options_.attempt}, master_address_,
                                       environment_, request, ranks));
  begin_world({.agent = host.agent,
               .request = request.id(),
               .name = ranks.name,
               .first = ranks.first,
               .size = static_cast<int>(host_of.size())},
              std::move(messages));
  observer_->on_note(fmt::format("rank {} has spawned ranks {} to {}", request.rank(), ranks.first, next_number_ - 1));
  return base::ok_status();
}

std::vector<SpawnHost> JobRunner::Core::spawn_hosts() const {
  std::vector<SpawnHost> result(placement_.hosts.size());
  for (const JobHost& host : hosts_) {
    if (host.placed < 0) continue;
    const model::PlacedHost& placed = placement_.hosts[static_cast<std::size_t>(host.placed)];
    SpawnHost& to = result[static_cast<std::size_t>(host.placed)];
    to.name = host.name;
    to.slots = placed.slots;
    to.running = static_cast<int>(std::ranges::count_if(host.ranks, [&](int rank) { return may_run(rank); }));
    to.most = placed.host.max_slots.value_or(0);
    to.is_usable = host.phase == HostPhase::kLaunched && to.running > 0;
  }
  return result;
}

// Sends the world to every host with running ranks, because these may communicate with the new ranks. Hosts whose ranks
// have ended do not get it.
void JobRunner::Core::begin_world(SpawnedWorld world, std::vector<v1::AddWorld> messages) {
  next_number_ += world.size;
  for (int rank = world.first; rank < next_number_; ++rank) world.unstarted.insert(rank);
  worlds_.push_back(std::move(world));
  for (JobHost& host : hosts_) {
    if (host.placed < 0 || host.phase != HostPhase::kLaunched) continue;
    v1::AddWorld& own = messages[static_cast<std::size_t>(host.placed)];
    std::vector<int> numbers;
    for (const v1::LaunchRank& rank : own.launch().ranks()) numbers.push_back(rank.rank());
    host.ranks.insert(host.ranks.end(), numbers.begin(), numbers.end());
    agents_->expect_more_output(host.agent, numbers);
    worlds_.back().unanswered.insert(host.agent);
    v1::LauncherMessage message;
    *message.mutable_add_world() = std::move(own);
    agents_->send(host.agent, std::move(message));
  }
}

JobRunner::Core::SpawnedWorld* JobRunner::Core::world_of(int rank) {
  const auto found = std::ranges::find_if(
      worlds_, [&](const SpawnedWorld& world) { return rank >= world.first && rank < world.first + world.size; });
  return found == worlds_.end() ? nullptr : &*found;
}

bool JobRunner::Core::may_run(int rank) const {
  return !ends_.has_ended(rank) && std::ranges::none_of(worlds_, [&](const SpawnedWorld& world) {
    return rank >= world.first && rank < world.first + world.size && world.phase == SpawnedWorld::Phase::kFailed;
  });
}

void JobRunner::Core::world_added(JobHost& host, const v1::WorldAdded& added) {
  SpawnedWorld* const world = world_of(added.first());
  if (world == nullptr || world->unanswered.erase(host.agent) == 0) return;
  if (added.starts_no_rank()) {
    // A host without a rank of this world does not need to know it.
    const bool has_any = std::ranges::any_of(host.ranks, [&](int rank) { return world->unstarted.contains(rank); });
    if (has_any) world_failed(*world, fmt::format("{}: {}", host.name, base::printable(added.error())));
  } else if (!added.error().empty()) {
    world_failed(*world, fmt::format("{}: {}", host.name, base::printable(added.error())));
  }
  settle_world(*world);
}

void JobRunner::Core::spawned_started(int rank) {
  SpawnedWorld* const world = world_of(rank);
  if (world == nullptr) return;
  world->unstarted.erase(rank);
  settle_world(*world);
}

// Returns true if the end belongs to a world that is not up. Such an end does not count for the job.
bool JobRunner::Core::keep_spawned_end(const model::RankEnd& end) {
  SpawnedWorld* const world = world_of(end.rank);
  if (world == nullptr || world->phase == SpawnedWorld::Phase::kRunning) return false;
  if (world->phase == SpawnedWorld::Phase::kFailed) return true;
  if (world->unstarted.contains(end.rank)) {
    world_failed(*world, fmt::format("{}: {}", end.host, end.detail.empty() ? model::describe(end) : end.detail));
  } else {
    world->ends.push_back(end);
  }
  return true;
}

// Kills the ranks of the world that have started. The spawning rank continues with an error.
void JobRunner::Core::world_failed(SpawnedWorld& world, const std::string& why) {
  if (world.phase != SpawnedWorld::Phase::kStarting) return;
  world.phase = SpawnedWorld::Phase::kFailed;
  for (const JobHost& host : hosts_) {
    v1::LauncherMessage message;
    for (const int rank : host.ranks) {
      if (world_of(rank) == &world) message.mutable_kill_ranks()->add_ranks(rank);
    }
    if (message.has_kill_ranks() && host.phase == HostPhase::kLaunched) agents_->send(host.agent, std::move(message));
  }
  agents_->send(world.agent, spawn_answer(world.request, "", why));
}

void JobRunner::Core::settle_world(SpawnedWorld& world) {
  if (world.phase != SpawnedWorld::Phase::kStarting || !world.unstarted.empty() || !world.unanswered.empty()) return;
  world.phase = SpawnedWorld::Phase::kRunning;
  ends_.add_ranks(world.size);
  agents_->send(world.agent, spawn_answer(world.request, world.name, ""));
  for (model::RankEnd& end : std::exchange(world.ends, {})) add_end(std::move(end));
}

// Removes the host from all worlds that are starting. Its ranks will report no ends, or will not start.
void JobRunner::Core::host_left_worlds(const JobHost& host) {
  for (SpawnedWorld& world : worlds_) {
    const bool has_any = std::ranges::any_of(host.ranks, [&](int rank) { return world_of(rank) == &world; });
    if (has_any) world_failed(world, fmt::format("{}: it has left the job", host.name));
    world.unanswered.erase(host.agent);
    settle_world(world);
  }
}

}  // namespace muster::launcherd::run
