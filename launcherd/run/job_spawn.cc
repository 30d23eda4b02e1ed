// The part of JobRunner's core that plans ranks for an agent's request to spawn more (MPI_Comm_spawn).
// SpawnedWorlds keeps what was spawned.
#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "launcherd/run/job_core.h"

namespace muster::launcherd::inline run {

void JobRunner::Core::spawn_requested(JobHost& host, const v1::SpawnRequest& request) {
  const base::Status spawned = spawn(host, request);
  if (!spawned.ok()) worlds_.refuse(host.agent, request.id(), spawned.message());
}

base::Status JobRunner::Core::spawn(JobHost& host, const v1::SpawnRequest& request) {
  if (!options_.may_spawn) {
    return base::failed_precondition(
        "a job of launcherd cannot get more ranks: start it with hvdrun, without launcherd");
  }
  if (live_ != nullptr) return base::failed_precondition("an elastic job cannot spawn ranks");
  if (is_ending(phase_) || host.phase != HostPhase::kLaunched) {
    return base::failed_precondition("the job is ending");
  }
  MUSTER_ASSIGN_OR_RETURN(const std::vector<int> host_of,
                          place_spawned(request, spawn_hosts(), job_.placement.oversubscribe));
  const int first = worlds_.next_number();
  if (first > model::kMaxRanks - static_cast<int>(host_of.size())) {
    return base::resource_exhausted("the job has had {} ranks, and Muster numbers no more", first);
  }
  const SpawnedRanks ranks{.name = fmt::format("muster-{}-{}-{}", options_.job_id, options_.attempt, first),
                           .first = first,
                           .host_of = host_of};
  std::vector<HostFacts> facts(placement_.hosts.size());
  for (const JobHost& each : hosts_) {
    if (each.placed >= 0) facts[static_cast<std::size_t>(each.placed)] = each.facts;
  }
  MUSTER_ASSIGN_OR_RETURN(
      std::vector<v1::AddWorld> messages,
      plan_spawned(job_, placement_, facts,
                   {.job_id = options_.job_id, .number = options_.attempt, .restarts = options_.restarts},
                   master_address_, environment_, request, ranks));
  worlds_.begin({.agent = host.agent,
                 .request = request.id(),
                 .name = ranks.name,
                 .first = ranks.first,
                 .size = static_cast<int>(host_of.size())},
                std::move(messages));
  observer_->on_note(
      fmt::format("rank {} has spawned ranks {} to {}", request.rank(), first, worlds_.next_number() - 1));
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

bool JobRunner::Core::may_run(int rank) const {
  if (live_ != nullptr) return live_->members().may_run(rank);
  return !ends_.has_ended(rank) && !worlds_.has_failed(rank);
}

SpawnedWorlds::Events JobRunner::Core::spawn_events() {
  return {
      .send = [this](int agent, v1::LauncherMessage message) { agents_->send(agent, std::move(message)); },
      .expect_output = [this](int agent, const std::vector<int>& ranks) { agents_->expect_more_output(agent, ranks); },
      .add_ranks = [this](int count) { ends_.add_ranks(count); },
      .add_end = [this](model::RankEnd end) { add_end(std::move(end)); }};
}

}  // namespace muster::launcherd::run
