// Which rank runs where: hosts and slots in, rank tables out. Pure.
//
// Block fill in host order (as horovodrun and Open MPI): rank counts up through each host's slots. local_rank is the
// index within the host; cross_rank the index of the host among the hosts that have a rank with this local_rank, in
// host order; cross_size the number of such hosts. Duplicate hosts merge, their slots add.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/host_spec.h"

namespace muster::model {

inline constexpr int kMaxRanks = 1'000'000;  // of one job: keeps a typo such as -np 1000000000 from eating memory

struct PlacedRank {
  int rank = 0;
  int local_rank = 0;
  int local_size = 0;
  int cross_rank = 0;
  int cross_size = 0;
  int host_index = 0;  // into Placement::hosts; MUSTER_NODE_RANK and torch's GROUP_RANK

  bool operator==(const PlacedRank&) const = default;
};

// What a job may use of a host that it shares with other jobs.
struct HostShare {
  std::vector<int> cpus{};             // sorted OS numbers, of whole cores; empty: any
  std::vector<std::string> devices{};  // GPUs, parts and tiles of them: model/device_id.h
  bool is_open = false;                // others may have the same devices
  bool is_crowded = false;             // the host has more slots than cores: shares are not bound

  bool operator==(const HostShare&) const = default;
};

struct PlacedHost {
  HostSpec host;
  int slots = 0;                     // as resolved
  std::vector<PlacedRank> ranks;     // in rank order; never empty
  std::optional<HostShare> share{};  // nullopt: all of it, as nobody else is there, or not decided yet
};

// A role's name and its ranks, which follow each other.
struct RoleRanks {
  std::string name{};
  int first = 0;
  int count = 0;

  bool operator==(const RoleRanks&) const = default;
};

struct Placement {
  int size = 0;
  std::vector<PlacedHost> hosts;   // only hosts with at least one rank, in host order
  std::vector<RoleRanks> roles{};  // in rank order; empty: the job has none (model/role.h)

  const PlacedRank& rank(int rank_number) const;  // 0 <= rank_number < size
  std::string_view role(int rank_number) const;   // its name; empty: the job has no roles
};

enum class MapBy { kSlot, kNode };

struct PlacementRequest {
  std::vector<HostSpec> hosts{};  // empty: localhost with np slots
  int np = 0;                     // 0: with -N that many on every host, else as many as there are slots
  int ranks_per_node = 0;         // -N; 0: not given. Slots of hosts without explicit ones
  bool oversubscribe = false;
  MapBy map_by = MapBy::kSlot;
};

// Slots of a host: the explicit ones (of repeated entries: their sum), else -N, else one for each time it is named.
// Oversubscribed ranks go one a host in turn after the slots are full, never above max_slots.
// Too few slots: the message holds the table of hosts and slots and the exact flag that would fix it.
base::Result<Placement> place(const PlacementRequest& request);

// The placement that somebody else has decided on: ranks by number from 0, each once, and for every one its host as an
// index into `hosts`. Hosts without a rank are left out; the host of rank 0 comes first, the others by their lowest
// rank.
Placement place_as_told(const std::vector<HostSpec>& hosts, const std::vector<std::size_t>& host_of_rank);

// The table of `place` for people (--verbose, --dry-run): one line a rank.
std::string format_placement(const Placement& placement);

}  // namespace muster::model
