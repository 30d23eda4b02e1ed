#include "agent/pmi/process_mapping.h"

#include <algorithm>

#include <fmt/format.h>

namespace muster::agent::inline pmi {
namespace {

struct Block {
  int host = 0;   // the first host of the block
  int hosts = 0;  // number of consecutive hosts
  int ranks = 0;  // number of ranks on each host
};

// Returns the host of each rank. -1 if no host has the rank.
std::vector<int> hosts_of_ranks(const std::vector<std::vector<int>>& hosts) {
  std::size_t size = 0;
  for (const auto& ranks : hosts) size += ranks.size();
  std::vector<int> host_of(size, -1);
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    for (const int rank : hosts[host]) {
      if (rank >= 0 && static_cast<std::size_t>(rank) < size) {
        host_of[static_cast<std::size_t>(rank)] = static_cast<int>(host);
      }
    }
  }
  return host_of;
}

std::vector<Block> blocks_of(const std::vector<int>& host_of) {
  std::vector<Block> blocks;
  for (std::size_t rank = 0; rank < host_of.size();) {
    const int host = host_of[rank];
    int ranks = 0;
    for (; rank < host_of.size() && host_of[rank] == host; ++rank) ++ranks;
    Block* const last = blocks.empty() ? nullptr : &blocks.back();
    if (last != nullptr && last->ranks == ranks && last->host + last->hosts == host) {
      ++last->hosts;
    } else {
      blocks.push_back({host, 1, ranks});
    }
  }
  return blocks;
}

}  // namespace

std::string pmi_process_mapping(const std::vector<std::vector<int>>& hosts, std::size_t max_bytes) {
  const std::vector<int> host_of = hosts_of_ranks(hosts);
  // Write no mapping rather than a wrong one. A wrong mapping breaks MPICH, a missing one does not.
  if (host_of.empty() || std::ranges::find(host_of, -1) != host_of.end()) return "";
  std::string mapping = "(vector";
  for (const Block& block : blocks_of(host_of)) {
    mapping += fmt::format(",({},{},{})", block.host, block.hosts, block.ranks);
    if (mapping.size() >= max_bytes) return "";
  }
  return mapping + ")";
}

}  // namespace muster::agent::pmi
