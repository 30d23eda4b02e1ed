#include "model/node_shape.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

namespace muster::model {
namespace {

using Cores = std::vector<const CoreShape*>;

// Cores by socket, with sockets in the order in which the node lists them.
std::vector<Cores> cores_by_socket(const NodeShape& node) {
  std::vector<Cores> sockets;
  for (const CoreShape& core : node.cores) {
    const auto found =
        std::ranges::find_if(sockets, [&](const Cores& cores) { return cores.front()->socket == core.socket; });
    Cores& into = found == sockets.end() ? sockets.emplace_back() : *found;
    into.push_back(&core);
  }
  return sockets;
}

// Cuts `cores` into `count` contiguous parts. Their sizes differ by one at most, and larger ones come first.
void split_evenly(const Cores& cores, std::size_t count, std::vector<Cores>& parts) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t size = cores.size() / count + (i < cores.size() % count ? 1 : 0);
    parts.emplace_back(cores.begin() + static_cast<std::ptrdiff_t>(begin),
                       cores.begin() + static_cast<std::ptrdiff_t>(begin + size));
    begin += size;
  }
}

// Chooses the number of ranks for each socket so that the smallest share is as large as possible. Ranks of a job run in
// step, so the smallest share sets the pace.
std::vector<std::size_t> ranks_by_socket(const std::vector<Cores>& sockets, std::size_t ranks) {
  std::vector<std::size_t> counts(sockets.size(), 0);
  for (std::size_t dealt = 0; dealt < ranks; ++dealt) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < sockets.size(); ++i) {
      // Compares cores/(counts+1) without division. The earlier socket wins a tie.
      if (sockets[i].size() * (counts[best] + 1) > sockets[best].size() * (counts[i] + 1)) best = i;
    }
    ++counts[best];
  }
  return counts;
}

// Returns one share for each rank; there must be at least as many cores as ranks.
std::vector<Cores> share_cores(const NodeShape& node, std::size_t ranks) {
  const std::vector<Cores> sockets = cores_by_socket(node);
  std::vector<Cores> shares;
  if (ranks >= sockets.size()) {
    const std::vector<std::size_t> counts = ranks_by_socket(sockets, ranks);
    for (std::size_t i = 0; i < sockets.size(); ++i) {
      if (counts[i] > 0) split_evenly(sockets[i], counts[i], shares);
    }
    return shares;
  }
  // There are fewer ranks than sockets, so each rank gets whole sockets.
  std::size_t next = 0;
  for (std::size_t i = 0; i < ranks; ++i) {
    Cores& share = shares.emplace_back();
    const std::size_t count = sockets.size() / ranks + (i < sockets.size() % ranks ? 1 : 0);
    for (std::size_t k = 0; k < count; ++k, ++next) {
      share.insert(share.end(), sockets[next].begin(), sockets[next].end());
    }
  }
  return shares;
}

std::vector<int> cpus_of(const Cores& cores) {
  std::vector<int> cpus;
  for (const CoreShape* core : cores) cpus.insert(cpus.end(), core->cpus.begin(), core->cpus.end());
  std::ranges::sort(cpus);
  return cpus;
}

// Returns the cores of the domain (core, NUMA node, socket) that contains `home`.
Cores domain_of(const NodeShape& node, const CoreShape& home, BindTo bind_to) {
  Cores domain;
  for (const CoreShape& core : node.cores) {
    const bool is_same = bind_to == BindTo::kCore   ? &core == &home
                         : bind_to == BindTo::kNuma ? core.numa == home.numa
                                                    : core.socket == home.socket;
    if (is_same) domain.push_back(&core);
  }
  return domain;
}

// With more ranks than cores, each rank gets one thread. numa and socket still bind, and spread ranks evenly.
std::vector<RankBinding> bind_crowded(const NodeShape& node, std::size_t ranks, BindTo bind_to) {
  std::vector<RankBinding> bindings(ranks);
  for (std::size_t i = 0; i < ranks; ++i) {
    bindings[i].physical_cores = 1;
    if (bind_to != BindTo::kNuma && bind_to != BindTo::kSocket) continue;
    const CoreShape& home = node.cores[i * node.cores.size() / ranks];
    bindings[i].cpus = cpus_of(domain_of(node, home, bind_to));
  }
  return bindings;
}

}  // namespace

bool touches(const CoreShape& core, const std::vector<int>& sorted_cpus) {
  return std::ranges::any_of(core.cpus, [&](int cpu) { return std::ranges::binary_search(sorted_cpus, cpu); });
}

std::vector<RankBinding> bind_ranks(const NodeShape& node, int local_size, BindTo bind_to) {
  const auto ranks = static_cast<std::size_t>(std::max(local_size, 0));
  if (node.cores.empty() || ranks == 0) return std::vector<RankBinding>(ranks);
  if (ranks > node.cores.size()) return bind_crowded(node, ranks, bind_to);
  std::vector<RankBinding> bindings;
  for (const Cores& share : share_cores(node, ranks)) {
    RankBinding& binding = bindings.emplace_back();
    binding.physical_cores = static_cast<int>(share.size());
    if (bind_to == BindTo::kNone) continue;
    if (bind_to == BindTo::kShare) {
      binding.cpus = cpus_of(share);
      continue;
    }
    const Cores domain = domain_of(node, *share.front(), bind_to);
    binding.cpus = cpus_of(domain);
    // Ranks in one domain share its cores, so count the cores of the rank's share or of the domain, whichever has
    // fewer.
    binding.physical_cores = static_cast<int>(std::min(share.size(), domain.size()));
  }
  return bindings;
}

std::string format_cpu_list(std::vector<int> cpus) {
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += last == i ? fmt::format("{}", cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace muster::model
