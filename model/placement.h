// Places ranks on hosts: from hosts and slots it makes tables of ranks. Pure.
//
// Ranks fill the slots of each host in host order, as in horovodrun and Open MPI. local_rank is the index within the
// host. cross_rank is the index of the host among the hosts that have a rank with this local_rank, in host order.
// cross_size is the number of such hosts. Duplicate hosts are merged, and their slots add up.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/host_spec.h"

namespace muster::model {

// The most ranks of one job. The limit keeps a typo such as -np 1000000000 from using up memory.
inline constexpr int kMaxRanks = 1'000'000;

struct PlacedRank {
  int rank = 0;
  int local_rank = 0;
  int local_size = 0;
  int cross_rank = 0;
  int cross_size = 0;
  int host_index = 0;  // index into Placement::hosts; MUSTER_NODE_RANK and torch's GROUP_RANK

  bool operator==(const PlacedRank&) const = default;
};

// The part that a job may use of a host that it shares with other jobs.
struct HostShare {
  std::vector<int> cpus{};             // sorted OS numbers of whole cores; empty means any
  std::vector<std::string> devices{};  // GPUs, or parts and tiles of them: model/device_id.h
  bool is_open = false;                // other jobs may have the same devices
  bool is_crowded = false;             // the host has more slots than cores, so shares are not bound

  bool operator==(const HostShare&) const = default;
};

struct PlacedHost {
  HostSpec host;
  int slots = 0;                     // the resolved number
  std::vector<PlacedRank> ranks;     // in rank order; never empty
  std::optional<HostShare> share{};  // nullopt if the job has the whole host, or if it is not decided yet
};

// A role's name and its ranks, which are consecutive.
struct RoleRanks {
  std::string name{};
  int first = 0;
  int count = 0;

  bool operator==(const RoleRanks&) const = default;
};

struct Placement {
  int size = 0;
  std::vector<PlacedHost> hosts;   // only hosts with at least one rank, in host order
  std::vector<RoleRanks> roles{};  // in rank order; empty if the job has none (model/role.h)

  const PlacedRank& rank(int rank_number) const;  // 0 <= rank_number < size
  std::string_view role(int rank_number) const;   // the role's name; empty if the job has no roles
};

enum class MapBy { kSlot, kNode };

struct PlacementRequest {
  std::vector<HostSpec> hosts{};  // empty means localhost with np slots
  int np = 0;                     // 0 means: with -N that many on every host, else as many as there are slots
  int ranks_per_node = 0;         // -N: the slots of each host that gives none itself; 0 if not given
  bool oversubscribe = false;
  MapBy map_by = MapBy::kSlot;
};

// The slots of a host are the explicit ones, summed over repeated entries. A host without explicit slots has -N slots,
// or else one for each time that it is named. After all slots are full, oversubscribed ranks go to the hosts in turn,
// never above max_slots. If there are too few slots, the message has the table of hosts and slots and the exact flag
// that fixes it.
base::Result<Placement> place(const PlacementRequest& request);

// Makes the placement that the caller has decided. `host_of_rank` has an index into `hosts` for every rank, from rank 0
// on. Hosts without a rank are left out. The host of rank 0 comes first, the others in the order of their lowest ranks.
Placement place_as_listed(const std::vector<HostSpec>& hosts, const std::vector<std::size_t>& host_of_rank);

// Formats a placement for people (--verbose, --dry-run): one line for each rank.
std::string format_placement(const Placement& placement);

}  // namespace muster::model
