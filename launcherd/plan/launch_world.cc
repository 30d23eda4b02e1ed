#include "launcherd/plan/launch_world.h"

#include <algorithm>
#include <utility>

#include "proto/world_bytes.h"

namespace muster::launcherd::inline plan {
namespace {

// Returns whether the ranks get PALS's file and variables, which Cray's MPI programs need. Cray's library uses
// PMI_CONTROL_PORT whenever it is set, so other programs must not get it. Scripts detect their launcher by PALS_RANKID.
// Cray's module sets CRAY_MPICH_DIR for users who compile with its MPI.
bool serves_pals(const model::JobSpec& job, const base::Environment& user_set) {
  if (job.runtime == model::Runtime::kMpi) return true;
  return job.runtime == model::Runtime::kAuto && user_set.get("CRAY_MPICH_DIR").has_value();
}

std::vector<int> program_sizes(const model::JobSpec& job, const model::Placement& placement) {
  std::vector<int> sizes;
  for (const model::Role& role : job.roles) sizes.push_back(role.np);
  if (sizes.empty()) sizes.push_back(placement.size);
  return sizes;
}

void add_programs(const std::vector<int>& sizes, const std::vector<model::BoundRank>& bindings, v1::World& world) {
  std::size_t first = 0;
  for (const int size : sizes) {
    v1::WorldProgram& program = *world.add_programs();
    program.set_ranks(size);
    const std::size_t cpus = first < bindings.size() ? bindings[first].cpus.size() : 0;
    program.set_cpus_per_rank(std::max(static_cast<int>(cpus), 1));
    first += static_cast<std::size_t>(size);
  }
}

}  // namespace

int universe_of(const model::Placement& placement) {
  int slots = 0;
  for (const model::PlacedHost& host : placement.hosts) slots += host.slots;
  return std::max(slots, placement.size);
}

std::string world_of_job(const model::JobSpec& job, const model::Placement& placement, const std::string& name,
                         const base::Environment& user_set, const std::vector<model::BoundRank>& bindings) {
  if (!model::serves(job.runtime, model::Runtime::kMpi)) return "";
  v1::World world;
  world.set_size(placement.size);
  world.set_universe(universe_of(placement));
  world.set_name(name);
  for (const model::PlacedHost& host : placement.hosts) {
    v1::WorldHost& to = *world.add_hosts();
    to.set_name(host.host.name);
    for (const model::PlacedRank& rank : host.ranks) to.add_ranks(rank.rank);
  }
  add_programs(program_sizes(job, placement), bindings, world);
  world.set_pals(serves_pals(job, user_set));
  return proto::world_bytes(std::move(world));
}

}  // namespace muster::launcherd::plan
