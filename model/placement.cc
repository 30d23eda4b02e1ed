// Places ranks on hosts: merging entries, resolving slots, dealing ranks, and the error for too few slots.
// Read place() first, then resolve_slots(), deal_ranks() and number_by_slot(), then too_few_slots().
#include "model/placement.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>

#include "base/net.h"

namespace muster::model {
namespace {

using base::Result;
using base::Status;

// A host after its entries were merged.
struct Candidate {
  HostSpec host;
  int explicit_slots = 0;    // sum over entries that give slots
  int bare_entries = 0;      // number of entries that give none
  bool is_unbounded = true;  // an entry has no max_slots
  int slots = 0;             // after resolve_slots()
  int limit = 0;             // the most ranks that the host accepts
  int ranks = 0;             // number of ranks dealt to it

  bool has_explicit_slots() const { return explicit_slots > 0; }
};

// Host names ignore case. Two spellings of one address are one host.
std::string merge_key(const std::string& name) {
  if (const auto address = base::IpAddress::parse(name); address.ok()) return address->str();
  std::string key = name;
  for (char& c : key) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return key;
}

Status merge_entry(const HostSpec& entry, Candidate& into) {
  HostSpec& host = into.host;
  if (!entry.user.empty() && !host.user.empty() && entry.user != host.user) {
    return base::invalid_argument("host {} is listed for two users, {} and {}: use one of them", host.name, host.user,
                                  entry.user);
  }
  if (entry.port != 0 && host.port != 0 && entry.port != host.port) {
    return base::invalid_argument("host {} is listed with two ssh ports, {} and {}: use one of them", host.name,
                                  host.port, entry.port);
  }
  if (host.user.empty()) host.user = entry.user;
  if (host.port == 0) host.port = entry.port;
  into.explicit_slots = std::min(into.explicit_slots + entry.slots.value_or(0), kMaxRanks);
  into.bare_entries += entry.slots ? 0 : 1;
  into.is_unbounded = into.is_unbounded || !entry.max_slots;
  if (into.is_unbounded) {
    host.max_slots.reset();
  } else {
    host.max_slots = std::min(host.max_slots.value_or(0) + *entry.max_slots, kMaxRanks);
  }
  return base::ok_status();
}

Result<std::vector<Candidate>> merge_hosts(const std::vector<HostSpec>& entries) {
  std::vector<Candidate> hosts;
  std::map<std::string, std::size_t> index_of;
  for (const HostSpec& entry : entries) {
    const auto [found, is_new] = index_of.try_emplace(merge_key(entry.name), hosts.size());
    if (is_new) {
      Candidate& fresh = hosts.emplace_back();
      fresh.host.name = entry.name;
      fresh.is_unbounded = false;
    }
    MUSTER_RETURN_IF_ERROR(merge_entry(entry, hosts[found->second]));
  }
  return hosts;
}

// Explicit slots win. -N applies to hosts without them. A host without slots counts once for each time that it is
// named.
void resolve_slots(const PlacementRequest& request, std::vector<Candidate>& hosts) {
  for (Candidate& candidate : hosts) {
    const int wanted = request.ranks_per_node > 0
                           ? (candidate.has_explicit_slots() ? candidate.explicit_slots : request.ranks_per_node)
                           : candidate.explicit_slots + candidate.bare_entries;
    const int most = candidate.host.max_slots.value_or(kMaxRanks);
    candidate.slots = std::min(wanted, most);
    candidate.limit = request.oversubscribe ? most : candidate.slots;
    candidate.host.slots = candidate.has_explicit_slots() ? std::optional(candidate.explicit_slots) : std::nullopt;
  }
}

std::string slot_table(const std::vector<Candidate>& hosts) {
  constexpr std::size_t kShown = 32;
  std::size_t width = 4;
  for (const Candidate& candidate : hosts) width = std::max(width, display_name(candidate.host).size());
  std::string table = fmt::format("\n  {:<{}}  slots", "host", width);
  for (std::size_t i = 0; i < hosts.size() && i < kShown; ++i) {
    table += fmt::format("\n  {:<{}}  {:>5}", display_name(hosts[i].host), width, hosts[i].slots);
    if (hosts[i].host.max_slots) table += fmt::format(" (max_slots={})", *hosts[i].host.max_slots);
  }
  if (hosts.size() > kShown) table += fmt::format("\n  … and {} more hosts", hosts.size() - kShown);
  return table;
}

// Fills slots in host order. With oversubscribe, the rest goes to the hosts in turn.
void deal_by_slot(std::vector<Candidate>& hosts, int np) {
  for (Candidate& candidate : hosts) {
    candidate.ranks = std::min(candidate.slots, np);
    np -= candidate.ranks;
  }
  while (np > 0) {
    for (Candidate& candidate : hosts) {
      if (np == 0 || candidate.ranks >= candidate.limit) continue;
      ++candidate.ranks;
      --np;
    }
  }
}

// Returns the flag that makes room for `np` ranks. This is -N if the user gave no slots. Otherwise it is the host list
// with enough slots, if it is short enough to type. Empty if max_slots or the list's length prevents that.
std::string fitting_flag(std::vector<Candidate> hosts, int np) {
  constexpr std::size_t kListed = 8;
  const int count = static_cast<int>(hosts.size());
  if (std::ranges::none_of(hosts, &Candidate::has_explicit_slots)) return fmt::format("-N {}", (np - 1) / count + 1);
  long room = 0;
  for (Candidate& candidate : hosts) room += candidate.limit = candidate.host.max_slots.value_or(kMaxRanks);
  if (room < np || hosts.size() > kListed) return "";
  deal_by_slot(hosts, np);
  std::string list;
  for (const Candidate& candidate : hosts) {
    list += fmt::format("{}{}:{}", list.empty() ? "" : ",", display_name(candidate.host), candidate.ranks);
  }
  return "-H " + list;
}

Status too_few_slots(const PlacementRequest& request, const std::vector<Candidate>& hosts, int np, int available) {
  std::string fix = fmt::format("use -np {}", available);
  if (request.oversubscribe) {
    fix += ", or raise max_slots";
  } else {
    if (const std::string flag = fitting_flag(hosts, np); !flag.empty()) fix += fmt::format(", or {}", flag);
    fix += ", or --oversubscribe";
  }
  return base::resource_exhausted("not enough slots: {} ranks are requested, but {} {}; {}{}", np,
                                  hosts.size() == 1 ? "the host has" : "the hosts together have", available, fix,
                                  slot_table(hosts));
}

long total_of(const std::vector<Candidate>& hosts, int Candidate::*member) {
  return std::accumulate(hosts.begin(), hosts.end(), 0L,
                         [member](long sum, const Candidate& candidate) { return sum + candidate.*member; });
}

void number_by_slot(const std::vector<Candidate>& hosts, Placement& placement) {
  int next = 0;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    for (int k = 0; k < hosts[i].ranks; ++k) placement.hosts[i].ranks.push_back({.rank = next++, .local_rank = k});
  }
}

void number_by_node(const std::vector<Candidate>& hosts, Placement& placement) {
  int next = 0;
  for (int k = 0; next < placement.size; ++k) {
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      if (k < hosts[i].ranks) placement.hosts[i].ranks.push_back({.rank = next++, .local_rank = k});
    }
  }
}

// MapBy::kNode (--map-by node) uses hosts evenly: one rank to each host in turn, first up to the slots, then
// (oversubscribe) up to the limits.
void deal_by_node(std::vector<Candidate>& hosts, int np) {
  for (int Candidate::*bound : {&Candidate::slots, &Candidate::limit}) {
    bool is_progress = true;
    while (np > 0 && is_progress) {
      is_progress = false;
      for (Candidate& candidate : hosts) {
        if (np == 0 || candidate.ranks >= candidate.*bound) continue;
        ++candidate.ranks;
        --np;
        is_progress = true;
      }
    }
  }
}

void fill_sizes(Placement& placement) {
  std::vector<int> hosts_with;  // indexed by local rank: the number of hosts that have this local rank
  for (std::size_t i = 0; i < placement.hosts.size(); ++i) {
    PlacedHost& host = placement.hosts[i];
    hosts_with.resize(std::max(hosts_with.size(), host.ranks.size()));
    for (PlacedRank& rank : host.ranks) {
      rank.host_index = static_cast<int>(i);
      rank.local_size = static_cast<int>(host.ranks.size());
      rank.cross_rank = hosts_with[static_cast<std::size_t>(rank.local_rank)]++;
    }
  }
  for (PlacedHost& host : placement.hosts) {
    for (PlacedRank& rank : host.ranks) rank.cross_size = hosts_with[static_cast<std::size_t>(rank.local_rank)];
  }
}

// -N without -np: places N ranks on every host.
Result<int> deal_per_node(const PlacementRequest& request, std::vector<Candidate>& hosts) {
  const long np = static_cast<long>(request.ranks_per_node) * static_cast<long>(hosts.size());
  if (np > kMaxRanks) return base::invalid_argument("{} ranks are more than the {} of one job", np, kMaxRanks);
  for (Candidate& candidate : hosts) {
    if (candidate.limit < request.ranks_per_node) {
      const std::string fix = request.oversubscribe ? "raise its max_slots" : "--oversubscribe";
      return base::resource_exhausted(
          "not enough slots: -N {} requests {} ranks on every host, but {} has {}; use -N {}, or {}{}",
          request.ranks_per_node, request.ranks_per_node, display_name(candidate.host), candidate.limit,
          candidate.limit, fix, slot_table(hosts));
    }
    candidate.ranks = request.ranks_per_node;
  }
  return static_cast<int>(np);
}

Result<int> deal_ranks(const PlacementRequest& request, std::vector<Candidate>& hosts) {
  if (request.np == 0 && request.ranks_per_node > 0) return deal_per_node(request, hosts);
  const long slots = total_of(hosts, &Candidate::slots);
  const long np = request.np > 0 ? request.np : slots;
  if (np > kMaxRanks) return base::invalid_argument("{} ranks are more than the {} of one job", np, kMaxRanks);
  const long available = total_of(hosts, &Candidate::limit);
  if (available < np) return too_few_slots(request, hosts, static_cast<int>(np), static_cast<int>(available));
  if (request.map_by == MapBy::kNode) {
    deal_by_node(hosts, static_cast<int>(np));
  } else {
    deal_by_slot(hosts, static_cast<int>(np));
  }
  return static_cast<int>(np);
}

Result<std::vector<Candidate>> candidates_of(const PlacementRequest& request) {
  if (!request.hosts.empty()) return merge_hosts(request.hosts);
  if (request.np == 0 && request.ranks_per_node == 0) {
    return base::invalid_argument("the number of ranks is missing: use -np N, or name hosts with -H n1:4,n2:4");
  }
  HostSpec localhost;
  localhost.name = "localhost";
  if (request.ranks_per_node == 0) localhost.slots = request.np;
  return merge_hosts({localhost});
}

}  // namespace

const PlacedRank& Placement::rank(int rank_number) const {
  const PlacedRank* found = nullptr;
  for (const PlacedHost& host : hosts) {
    const auto at = std::ranges::lower_bound(host.ranks, rank_number, {}, &PlacedRank::rank);
    if (at != host.ranks.end() && at->rank == rank_number) found = &*at;
  }
  MUSTER_CHECK(found != nullptr);
  return *found;
}

std::string_view Placement::role(int rank_number) const {
  for (const RoleRanks& each : roles) {
    if (rank_number >= each.first && rank_number - each.first < each.count) return each.name;
  }
  return {};
}

Result<Placement> place(const PlacementRequest& request) {
  if (request.np < 0 || request.ranks_per_node < 0) {
    return base::invalid_argument("a number of ranks cannot be negative");
  }
  MUSTER_ASSIGN_OR_RETURN(std::vector<Candidate> hosts, candidates_of(request));
  resolve_slots(request, hosts);
  Placement placement;
  MUSTER_ASSIGN_OR_RETURN(placement.size, deal_ranks(request, hosts));
  std::erase_if(hosts, [](const Candidate& candidate) { return candidate.ranks == 0; });
  for (const Candidate& candidate : hosts) placement.hosts.push_back({candidate.host, candidate.slots, {}});
  if (request.map_by == MapBy::kNode) {
    number_by_node(hosts, placement);
  } else {
    number_by_slot(hosts, placement);
  }
  fill_sizes(placement);
  return placement;
}

Placement place_as_listed(const std::vector<HostSpec>& hosts, const std::vector<std::size_t>& host_of_rank) {
  Placement placement;
  placement.size = static_cast<int>(host_of_rank.size());
  std::map<std::size_t, std::size_t> placed;  // maps an index of `hosts` to one of placement.hosts
  for (int rank = 0; rank < placement.size; ++rank) {
    const std::size_t index = host_of_rank[static_cast<std::size_t>(rank)];
    const auto [at, is_new] = placed.try_emplace(index, placement.hosts.size());
    if (is_new) placement.hosts.push_back({hosts[index], hosts[index].slots.value_or(0), {}});
    std::vector<PlacedRank>& ranks = placement.hosts[at->second].ranks;
    ranks.push_back({.rank = rank, .local_rank = static_cast<int>(ranks.size())});
  }
  fill_sizes(placement);
  return placement;
}

std::string format_placement(const Placement& placement) {
  std::size_t width = 4;
  for (const PlacedHost& host : placement.hosts) width = std::max(width, display_name(host.host).size());
  const bool has_roles = !placement.roles.empty();
  std::string table = fmt::format("{:>6}  {:<{}}  {:>11}  {:>11}{}\n", "rank", "host", width, "local", "cross",
                                  has_roles ? "  role" : "");
  std::vector<const PlacedRank*> by_rank(static_cast<std::size_t>(placement.size));
  for (const PlacedHost& host : placement.hosts) {
    for (const PlacedRank& rank : host.ranks) by_rank[static_cast<std::size_t>(rank.rank)] = &rank;
  }
  for (const PlacedRank* at : by_rank) {
    const PlacedRank& rank = *at;
    table += fmt::format("{:>6}  {:<{}}  {:>11}  {:>11}{}{}\n", rank.rank,
                         display_name(placement.hosts[static_cast<std::size_t>(rank.host_index)].host), width,
                         fmt::format("{}/{}", rank.local_rank, rank.local_size),
                         fmt::format("{}/{}", rank.cross_rank, rank.cross_size), has_roles ? "  " : "",
                         placement.role(rank.rank));
  }
  return table;
}

}  // namespace muster::model
