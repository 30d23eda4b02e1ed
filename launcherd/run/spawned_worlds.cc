// All of SpawnedWorlds.
// Read it in this order: begin, added and started, settle, fail.
#include "launcherd/run/spawned_worlds.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

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

SpawnedWorlds::SpawnedWorlds(HostRoster& hosts, int first_number, Events events)
    : hosts_(hosts), next_number_(first_number), events_(std::move(events)) {}

void SpawnedWorlds::begin(SpawnedWorld world, std::vector<v1::AddWorld> messages) {
  next_number_ += world.size;
  for (int rank = world.first; rank < next_number_; ++rank) world.unstarted.insert(rank);
  worlds_.push_back(std::move(world));
  for (JobHost& host : hosts_) {
    if (host.placed < 0 || host.phase != HostPhase::kLaunched) continue;
    v1::AddWorld& own = messages[static_cast<std::size_t>(host.placed)];
    std::vector<int> numbers;
    for (const v1::LaunchRank& rank : own.launch().ranks()) numbers.push_back(rank.rank());
    host.ranks.insert(host.ranks.end(), numbers.begin(), numbers.end());
    events_.expect_output(host.agent, numbers);
    worlds_.back().unanswered.insert(host.agent);
    v1::LauncherMessage message;
    *message.mutable_add_world() = std::move(own);
    events_.send(host.agent, std::move(message));
  }
}

void SpawnedWorlds::refuse(int agent, std::uint64_t request, const std::string& why) {
  events_.send(agent, spawn_answer(request, "", why));
}

void SpawnedWorlds::added(const JobHost& host, const v1::WorldAdded& added) {
  SpawnedWorld* const world = world_of(added.first());
  if (world == nullptr || world->unanswered.erase(host.agent) == 0) return;
  // A host without a rank of this world does not need the world. Ignore the host's failure to add it.
  const bool has_any = std::ranges::any_of(host.ranks, [&](int rank) { return world->unstarted.contains(rank); });
  const bool has_failed = added.starts_no_rank() ? has_any : !added.error().empty();
  if (has_failed) fail(*world, fmt::format("{}: {}", host.name, base::printable(added.error())));
  settle(*world);
}

void SpawnedWorlds::started(int rank) {
  SpawnedWorld* const world = world_of(rank);
  if (world == nullptr) return;
  world->unstarted.erase(rank);
  settle(*world);
}

bool SpawnedWorlds::keep_end(const model::RankEnd& end) {
  SpawnedWorld* const world = world_of(end.rank);
  if (world == nullptr || world->phase == SpawnedWorld::Phase::kRunning) return false;
  if (world->phase == SpawnedWorld::Phase::kFailed) return true;
  if (world->unstarted.contains(end.rank)) {
    fail(*world, fmt::format("{}: {}", end.host, end.detail.empty() ? model::describe(end) : end.detail));
  } else {
    world->ends.push_back(end);
  }
  return true;
}

void SpawnedWorlds::host_left(const JobHost& host) {
  for (SpawnedWorld& world : worlds_) {
    const bool has_any = std::ranges::any_of(host.ranks, [&](int rank) { return world.has(rank); });
    if (has_any) fail(world, fmt::format("{}: it has left the job", host.name));
    world.unanswered.erase(host.agent);
    settle(world);
  }
}

bool SpawnedWorlds::has_failed(int rank) const {
  return std::ranges::any_of(worlds_, [rank](const SpawnedWorld& world) {
    return world.has(rank) && world.phase == SpawnedWorld::Phase::kFailed;
  });
}

SpawnedWorld* SpawnedWorlds::world_of(int rank) {
  const auto found = std::ranges::find_if(worlds_, [rank](const SpawnedWorld& world) { return world.has(rank); });
  return found == worlds_.end() ? nullptr : &*found;
}

// Kills the ranks of the world that have started. The spawning rank continues with an error.
void SpawnedWorlds::fail(SpawnedWorld& world, const std::string& why) {
  if (world.phase != SpawnedWorld::Phase::kStarting) return;
  world.phase = SpawnedWorld::Phase::kFailed;
  for (const JobHost& host : hosts_) {
    v1::LauncherMessage message;
    for (const int rank : host.ranks) {
      if (world.has(rank)) message.mutable_kill_ranks()->add_ranks(rank);
    }
    if (message.has_kill_ranks() && host.phase == HostPhase::kLaunched) events_.send(host.agent, std::move(message));
  }
  refuse(world.agent, world.request, why);
}

void SpawnedWorlds::settle(SpawnedWorld& world) {
  if (world.phase != SpawnedWorld::Phase::kStarting || !world.unstarted.empty() || !world.unanswered.empty()) return;
  world.phase = SpawnedWorld::Phase::kRunning;
  events_.add_ranks(world.size);
  events_.send(world.agent, spawn_answer(world.request, world.name, ""));
  for (model::RankEnd& end : std::exchange(world.ends, {})) events_.add_end(std::move(end));
}

}  // namespace muster::launcherd::run
