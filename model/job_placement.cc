// Places a job's ranks: roles onto the slots of a pool of hosts, chosen places, and plain jobs.
// Read place() first, then place_roles() and deal_role(), which it calls.
#include "model/job_placement.h"

#include <algorithm>
#include <map>

#include "base/strings.h"

namespace muster::model {
namespace {

using base::Result;
using base::Status;

// The hosts of a job, each listed once.
struct Pool {
  std::vector<HostSpec> hosts;  // with their slots
  std::vector<int> free;
};

// Returns the job's hosts, or else those that its roles name, or else this host.
Result<Pool> pool_of(const JobSpec& job, int ranks) {
  PlacementRequest request = job.placement;
  request.map_by = MapBy::kSlot;
  request.np = 0;
  request.oversubscribe = true;  // accept any number of ranks, because only the slots are needed here
  if (request.hosts.empty()) {
    for (const Role& role : job.roles) request.hosts.insert(request.hosts.end(), role.hosts.begin(), role.hosts.end());
  }
  if (request.hosts.empty()) request.np = request.ranks_per_node > 0 ? request.ranks_per_node : ranks;
  MUSTER_ASSIGN_OR_RETURN(const Placement all, place(request));
  Pool pool;
  for (const PlacedHost& placed : all.hosts) {
    HostSpec& host = pool.hosts.emplace_back(placed.host);
    host.slots = placed.slots;
    pool.free.push_back(placed.slots);
  }
  return pool;
}

Result<std::size_t> index_of(const Pool& pool, const std::string& name) {
  const auto found = std::ranges::find(pool.hosts, name, &HostSpec::name);
  if (found == pool.hosts.end()) return base::invalid_argument("{} is not one of the job's hosts", name);
  return static_cast<std::size_t>(found - pool.hosts.begin());
}

// The number of the role's ranks that each host of the pool may get.
struct RoomOfRole {
  std::vector<std::size_t> hosts;  // in the role's order
  std::vector<int> slots;          // indexed as hosts
};

Result<RoomOfRole> room_of(const Role& role, const Pool& pool, bool own_pool) {
  RoomOfRole room;
  if (role.hosts.empty()) {
    for (std::size_t i = 0; i < pool.hosts.size(); ++i) room.hosts.push_back(i);
    room.slots = pool.free;
    return room;
  }
  for (const HostSpec& host : role.hosts) {
    MUSTER_ASSIGN_OR_RETURN(const std::size_t index, index_of(pool, host.name));
    // If the role gives no slots for a host, use the slots in the job's host list. Without such a list, use one slot.
    const int wanted = host.slots ? *host.slots : own_pool ? kMaxSlotsPerHost : 1;
    const auto known = std::ranges::find(room.hosts, index);
    if (known == room.hosts.end()) {
      room.hosts.push_back(index);
      room.slots.push_back(wanted);
    } else {
      int& slots = room.slots[static_cast<std::size_t>(known - room.hosts.begin())];
      slots = std::min(slots + wanted, kMaxSlotsPerHost);
    }
  }
  for (std::size_t i = 0; i < room.hosts.size(); ++i) room.slots[i] = std::min(room.slots[i], pool.free[room.hosts[i]]);
  return room;
}

// Deals one rank to each host in turn while a host has room. Returns the number of ranks left over.
int deal_in_turn(const std::vector<std::size_t>& hosts, std::vector<int>& room, int ranks,
                 std::vector<std::size_t>& dealt) {
  for (bool is_progress = true; ranks > 0 && is_progress;) {
    is_progress = false;
    for (std::size_t i = 0; i < hosts.size() && ranks > 0; ++i) {
      if (room[i] == 0) continue;
      --room[i];
      --ranks;
      dealt.push_back(hosts[i]);
      is_progress = true;
    }
  }
  return ranks;
}

int deal_in_blocks(const std::vector<std::size_t>& hosts, std::vector<int>& room, int ranks,
                   std::vector<std::size_t>& dealt) {
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    for (; ranks > 0 && room[i] > 0; --room[i], --ranks) dealt.push_back(hosts[i]);
  }
  return ranks;
}

// Returns how many ranks a host accepts beyond its slots.
int room_above(const HostSpec& host, int used) {
  return std::max(host.max_slots.value_or(kMaxRanks) - used, 0);
}

Status deal_role(const JobSpec& job, const Role& role, Pool& pool, std::vector<int>& used,
                 std::vector<std::size_t>& host_of_rank) {
  MUSTER_ASSIGN_OR_RETURN(RoomOfRole room, room_of(role, pool, !job.placement.hosts.empty()));
  std::vector<std::size_t> dealt;
  const bool by_node = job.placement.map_by == MapBy::kNode;
  int left = by_node ? deal_in_turn(room.hosts, room.slots, role.np, dealt)
                     : deal_in_blocks(room.hosts, room.slots, role.np, dealt);
  for (const std::size_t host : dealt) {
    --pool.free[host];
    ++used[host];
  }
  if (left > 0 && job.placement.oversubscribe) {
    std::vector<int> above;
    for (const std::size_t host : room.hosts) above.push_back(room_above(pool.hosts[host], used[host]));
    const std::size_t before = dealt.size();
    left = deal_in_turn(room.hosts, above, left, dealt);
    for (std::size_t i = before; i < dealt.size(); ++i) ++used[dealt[i]];
  }
  if (left > 0) {
    return base::resource_exhausted(
        "not enough slots: {} ranks are requested, but the roles before leave {} on its hosts; give the hosts "
        "more slots, as -H n1:{}, or add --oversubscribe",
        role.np, role.np - left, role.np);
  }
  // Put the ranks of one host together, whatever the order in which they were dealt.
  if (!by_node)
    std::ranges::stable_sort(dealt, {}, [&](std::size_t host) { return std::ranges::find(room.hosts, host); });
  host_of_rank.insert(host_of_rank.end(), dealt.begin(), dealt.end());
  return base::ok_status();
}

Result<Placement> place_roles(const JobSpec& job) {
  MUSTER_RETURN_IF_ERROR(check_roles(job.roles));
  MUSTER_ASSIGN_OR_RETURN(Pool pool, pool_of(job, count_ranks(job.roles)));
  std::vector<std::size_t> host_of_rank;
  std::vector<int> used(pool.hosts.size(), 0);
  for (const Role& role : job.roles) {
    MUSTER_RETURN_IF_ERROR(deal_role(job, role, pool, used, host_of_rank).with_context("role " + role.name));
  }
  return place_as_listed(pool.hosts, host_of_rank);
}

Result<Placement> place_on_places(const JobSpec& job) {
  MUSTER_ASSIGN_OR_RETURN(const Pool pool, pool_of(job, static_cast<int>(job.places.size())));
  std::vector<std::size_t> host_of_rank;
  for (const RankPlace& each : job.places) {
    MUSTER_ASSIGN_OR_RETURN(const std::size_t index, index_of(pool, each.host));
    host_of_rank.push_back(index);
  }
  return place_as_listed(pool.hosts, host_of_rank);
}

}  // namespace

Result<Placement> place(const JobSpec& job) {
  auto placement = !job.places.empty()  ? place_on_places(job)
                   : !job.roles.empty() ? place_roles(job)
                                        : place(job.placement);
  if (placement.ok()) placement->roles = role_ranks(job.roles);
  return placement;
}

std::vector<RankPlace> places_of(const Placement& placement) {
  std::vector<RankPlace> places(static_cast<std::size_t>(placement.size));
  for (const PlacedHost& placed : placement.hosts) {
    for (const PlacedRank& rank : placed.ranks) {
      places[static_cast<std::size_t>(rank.rank)] = {.rank = rank.rank, .host = placed.host.name};
    }
  }
  return places;
}

void rename_host(const std::string& from, const std::string& to, JobSpec& job) {
  const auto rename = [&](std::vector<HostSpec>& hosts) {
    for (HostSpec& host : hosts) {
      if (host.name == from) host.name = to;
    }
  };
  rename(job.placement.hosts);
  for (Role& role : job.roles) rename(role.hosts);
  for (RankPlace& place : job.places) {
    if (place.host == from) place.host = to;
  }
}

std::vector<std::string> all_commands(const JobSpec& job) {
  if (!job.command.empty()) return job.command;
  std::vector<std::string> words;
  for (const Role& role : job.roles) {
    if (!words.empty()) words.emplace_back(":");
    words.insert(words.end(), role.command.begin(), role.command.end());
  }
  return words;
}

std::vector<RoleRanks> role_ranks(const std::vector<Role>& roles) {
  std::vector<RoleRanks> ranks;
  int first = 0;
  for (const Role& role : roles) {
    ranks.push_back({role.name, first, role.np});
    first += role.np;
  }
  return ranks;
}

}  // namespace muster::model
