// The whole of spawn_plan.h: the placement of spawned ranks, and the messages to their hosts.
// Read it in this order: place_spawned, place_program, plan_spawned, world_of.
#include "launcherd/plan/spawn_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/strings.h"
#include "launcherd/plan/launch_world.h"
#include "model/rank_env.h"
#include "proto/convert.h"

namespace muster::launcherd::inline plan {
namespace {

base::Result<int> count_ranks(const v1::SpawnRequest& request) {
  std::int64_t count = 0;
  for (const v1::SpawnProgram& program : request.programs()) {
    if (program.command().empty() || program.command(0).empty() || program.ranks() < 1) {
      return base::invalid_argument("the request names no program, or asks for less than one rank");
    }
    count += program.ranks();
  }
  if (count < 1 || count > model::kMaxRanks) {
    return base::invalid_argument("the request asks for {} ranks: at most {} can run", count, model::kMaxRanks);
  }
  return static_cast<int>(count);
}

// Returns the host name in a word of an MPI_Info: "n1:2" means n1. The number is ignored: the request and the free
// slots decide how many ranks run on the host.
std::string_view host_name(std::string_view word) {
  const auto colon = word.rfind(':');
  if (colon == std::string_view::npos || !base::parse_decimal(word.substr(colon + 1), model::kMaxSlotsPerHost)) {
    return word;
  }
  return word.substr(0, colon);
}

// Returns the indexes of the hosts on which a program may run.
base::Result<std::vector<int>> allowed_hosts(const v1::SpawnProgram& program, const std::vector<SpawnHost>& hosts) {
  std::vector<int> allowed(hosts.size());
  std::iota(allowed.begin(), allowed.end(), 0);
  if (!program.hosts().empty()) {
    allowed.clear();
    for (const std::string& word : program.hosts()) {
      const auto found = std::ranges::find(hosts, host_name(word), &SpawnHost::name);
      if (found == hosts.end()) {
        return base::invalid_argument("host {} runs no rank of this job: only hosts that run one can get more",
                                      base::printable(word));
      }
      allowed.push_back(static_cast<int>(found - hosts.begin()));
    }
    std::ranges::sort(allowed);
    allowed.erase(std::unique(allowed.begin(), allowed.end()), allowed.end());
  }
  std::erase_if(allowed, [&](int host) { return !hosts[static_cast<std::size_t>(host)].is_usable; });
  return allowed;
}

int room_of(const SpawnHost& host) {
  return host.most == 0 ? std::numeric_limits<int>::max() : host.most - host.running;
}

// Appends the hosts of one program's ranks in ascending order, and counts these ranks as running.
base::Status place_program(const v1::SpawnProgram& program, bool oversubscribe, std::vector<SpawnHost>& hosts,
                           std::vector<int>& host_of) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<int> allowed, allowed_hosts(program, hosts));
  std::vector<int> more(hosts.size());
  int left = program.ranks();
  int free = 0;
  for (const int index : allowed) {
    SpawnHost& host = hosts[static_cast<std::size_t>(index)];
    const int here = std::clamp(std::min(host.slots - host.running, room_of(host)), 0, left);
    free += here;
    left -= here;
    host.running += here;
    more[static_cast<std::size_t>(index)] += here;
  }
  for (bool has_placed = true; oversubscribe && left > 0 && has_placed;) {
    has_placed = false;
    for (const int index : allowed) {
      SpawnHost& host = hosts[static_cast<std::size_t>(index)];
      if (left == 0 || room_of(host) <= 0) continue;
      has_placed = true;
      --left;
      ++host.running;
      ++more[static_cast<std::size_t>(index)];
    }
  }
  if (left > 0) {
    return base::resource_exhausted(
        "the request asks for {} ranks, but the job's hosts have {} free slots{}: start the job with "
        "more slots (as -H n1:8) or with --oversubscribe",
        program.ranks(), free, program.hosts().empty() ? "" : " among those that the request allows");
  }
  for (std::size_t i = 0; i < more.size(); ++i)
    host_of.insert(host_of.end(), static_cast<std::size_t>(more[i]), static_cast<int>(i));
  return base::ok_status();
}

// The placement of the new ranks alone. `hosts` maps each of its hosts to the host's index in the job's placement.
struct OwnPlacement {
  model::Placement placement;
  std::vector<int> hosts;
};

OwnPlacement own_placement(const model::Placement& job, const std::vector<int>& host_of) {
  OwnPlacement own;
  std::vector<model::HostSpec> specs;
  for (const model::PlacedHost& host : job.hosts) specs.push_back(host.host);
  own.placement = model::place_as_listed(specs, {host_of.begin(), host_of.end()});
  for (const int host : host_of) {
    if (std::ranges::find(own.hosts, host) == own.hosts.end()) own.hosts.push_back(host);
  }
  return own;
}

// Returns the job's spec without the settings that apply only to the ranks of the job itself.
model::JobSpec own_job(const model::JobSpec& job) {
  model::JobSpec own;
  own.command = job.command;
  own.environment = job.environment;
  own.workdir = job.workdir;
  own.umask = job.umask;
  own.limits = job.limits;
  own.container = job.container;
  own.network = job.network;
  own.network_interfaces = job.network_interfaces;
  own.runtime = model::Runtime::kMpi;
  own.pinning.bind_to = model::BindTo::kNone;
  own.pinning.gpu_bind = model::GpuBind::kNone;
  own.input.to = model::InputTo::kNone;
  return own;
}

// Returns the program's environment without the variables that identify the spawning rank.
proto::EnvList environment_of_program(const v1::SpawnProgram& program) {
  proto::EnvList variables;
  for (auto& entry : proto::environment_of(program.environment())) {
    if (!model::is_rank_variable(entry.first)) variables.push_back(std::move(entry));
  }
  return variables;
}

v1::LaunchRank rank_of_program(const v1::SpawnProgram& program, int first, const v1::LaunchRank& planned) {
  v1::LaunchRank rank = planned;
  rank.set_rank(first + planned.rank());
  *rank.mutable_command() = program.command();
  rank.set_workdir(program.workdir());
  proto::EnvList variables = environment_of_program(program);
  for (auto& entry : proto::environment_of(planned.environment())) variables.push_back(std::move(entry));
  proto::set_environment(variables, *rank.mutable_environment());
  return rank;
}

// Returns the World of the new ranks, which counts them from 0. It includes all hosts of the job, because the new ranks
// may communicate with ranks on all of them.
std::string world_of(const model::Placement& job, const v1::SpawnRequest& request, const SpawnedRanks& ranks) {
  v1::World world;
  world.set_name(ranks.name);
  world.set_size(static_cast<int>(ranks.host_of.size()));
  world.set_universe(universe_of(job));
  for (const model::PlacedHost& host : job.hosts) world.add_hosts()->set_name(host.host.name);
  for (std::size_t i = 0; i < ranks.host_of.size(); ++i) {
    world.mutable_hosts(ranks.host_of[i])->add_ranks(static_cast<int>(i));
  }
  for (const v1::SpawnProgram& program : request.programs()) {
    v1::WorldProgram& to = *world.add_programs();
    to.set_ranks(program.ranks());
    to.set_cpus_per_rank(1);
  }
  return world.SerializeAsString();
}

const v1::SpawnProgram& program_of(const v1::SpawnRequest& request, int rank) {
  int index = 0;
  for (; rank >= request.programs(index).ranks(); ++index) rank -= request.programs(index).ranks();
  return request.programs(index);
}

}  // namespace

base::Result<std::vector<int>> place_spawned(const v1::SpawnRequest& request, const std::vector<SpawnHost>& hosts,
                                             bool oversubscribe) {
  MUSTER_RETURN_IF_ERROR(count_ranks(request).status());
  std::vector<SpawnHost> now = hosts;
  std::vector<int> host_of;
  for (const v1::SpawnProgram& program : request.programs()) {
    MUSTER_RETURN_IF_ERROR(place_program(program, oversubscribe, now, host_of));
  }
  return host_of;
}

base::Result<std::vector<v1::AddWorld>> plan_spawned(const model::JobSpec& job, const model::Placement& placement,
                                                     const std::vector<HostFacts>& facts, const Attempt& attempt,
                                                     const std::string& master_address,
                                                     const base::Environment& launcher_environment,
                                                     const v1::SpawnRequest& request, const SpawnedRanks& ranks) {
  const OwnPlacement own = own_placement(placement, ranks.host_of);
  std::vector<HostFacts> own_facts;
  for (const int host : own.hosts) own_facts.push_back(facts.at(static_cast<std::size_t>(host)));
  const Attempt own_attempt{attempt.job_id, attempt.number, attempt.restarts, placement.hosts.size() > 1};
  MUSTER_ASSIGN_OR_RETURN(const LaunchPlan plan, plan_launch(own_job(job), own.placement, own_facts, own_attempt,
                                                             master_address, launcher_environment));
  const std::string world = world_of(placement, request, ranks);
  std::vector<v1::AddWorld> messages(placement.hosts.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    v1::AddWorld& message = messages[i];
    message.set_first(ranks.first);
    message.set_spawner(request.rank());
    v1::Launch& launch = *message.mutable_launch();
    if (const auto at = std::ranges::find(own.hosts, static_cast<int>(i)); at != own.hosts.end()) {
      launch = plan.hosts[static_cast<std::size_t>(at - own.hosts.begin())];
    }
    for (v1::LaunchRank& rank : *launch.mutable_ranks()) {
      rank = rank_of_program(program_of(request, rank.rank()), ranks.first, rank);
    }
    launch.set_world(world);
    launch.set_host(static_cast<int>(i));
  }
  return messages;
}

}  // namespace muster::launcherd::plan
