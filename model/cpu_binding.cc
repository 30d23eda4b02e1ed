// The binder of CPUs: --bind-to depth and list, reserved cores, and the call of bind_ranks() for the other rules.
// Read bind_cpus() at the end first, then bind_depth() and bind_lists(), which it calls.
#include "model/cpu_binding.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include <fmt/format.h>

namespace muster::model {
namespace {

using base::Result;
using Bindings = std::vector<RankBinding>;

struct Socket {
  int number = 0;
  std::vector<const CoreShape*> cores;

  std::size_t most_threads() const {
    std::size_t most = 0;
    for (const CoreShape* core : cores) most = std::max(most, core->cpus.size());
    return most;
  }
};

// Returns the sockets in the order in which the node lists them.
std::vector<Socket> sockets_of(const NodeShape& node) {
  std::vector<Socket> sockets;
  for (const CoreShape& core : node.cores) {
    auto found = std::ranges::find(sockets, core.socket, &Socket::number);
    if (found == sockets.end()) found = sockets.insert(found, Socket{core.socket, {}});
    found->cores.push_back(&core);
  }
  return sockets;
}

// Returns the threads of a socket in the order in which ranks get them: `layers` threads of each core, from the core's
// thread `first` on. First come the cores' first threads, then their second ones.
std::vector<int> threads_of(const Socket& socket, std::size_t first, std::size_t layers) {
  std::vector<int> cpus;
  for (std::size_t thread = first; thread < first + layers; ++thread) {
    for (const CoreShape* core : socket.cores) {
      if (thread < core->cpus.size()) cpus.push_back(core->cpus[thread]);
    }
  }
  return cpus;
}

void cut(const std::vector<int>& cpus, std::size_t depth, std::vector<std::vector<int>>& blocks) {
  for (std::size_t begin = 0; begin + depth <= cpus.size(); begin += depth) {
    const auto from = cpus.begin() + static_cast<std::ptrdiff_t>(begin);
    blocks.emplace_back(from, from + static_cast<std::ptrdiff_t>(depth));
  }
}

// Takes the first threads of all cores, then the second ones, as PALS counts. If the depth exceeds a socket's cores, it
// takes as many threads of each core as it needs.
std::vector<std::vector<int>> blocks_by_thread(const std::vector<Socket>& sockets, std::size_t depth) {
  std::size_t threads = 0;
  for (const Socket& socket : sockets) threads = std::max(threads, socket.most_threads());
  std::vector<std::vector<int>> blocks;
  for (std::size_t thread = 0; thread < threads; ++thread) {
    for (const Socket& socket : sockets) {
      const std::size_t layers = (depth + socket.cores.size() - 1) / socket.cores.size();
      if (thread % layers == 0) cut(threads_of(socket, thread, layers), depth, blocks);
    }
  }
  return blocks;
}

// Takes all usable threads core by core, as aprun counts with -j. Ranks share a core only if several fit into it
// completely.
std::vector<std::vector<int>> blocks_by_core(const std::vector<Socket>& sockets, std::size_t depth) {
  std::vector<std::vector<int>> blocks;
  for (const Socket& socket : sockets) {
    std::vector<int> block;
    for (const CoreShape* core : socket.cores) {
      if (core->cpus.size() >= depth && block.empty()) {
        cut(core->cpus, depth, blocks);
        continue;
      }
      for (const int cpu : core->cpus) {
        if (block.size() < depth) block.push_back(cpu);
      }
      if (block.size() == depth) blocks.push_back(std::exchange(block, {}));
    }
  }
  return blocks;
}

RankBinding binding_to(const NodeShape& node, std::vector<int> cpus) {
  RankBinding binding;
  std::ranges::sort(cpus);
  for (const CoreShape& core : node.cores) {
    if (touches(core, cpus)) ++binding.physical_cores;
  }
  binding.cpus = std::move(cpus);
  return binding;
}

std::string plural(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

Result<Bindings> bind_depth(const NodeShape& node, std::size_t ranks, const Pinning& pinning) {
  const std::vector<Socket> sockets = sockets_of(node);
  const auto depth = static_cast<std::size_t>(std::max(pinning.depth, 1));
  auto blocks = pinning.hyperthreads > 0 ? blocks_by_core(sockets, depth) : blocks_by_thread(sockets, depth);
  if (blocks.size() < ranks) {
    return base::invalid_argument(
        "--bind-to depth: {} of {} do not fit on {} of {}: only {} ranks do, because no rank spans two "
        "sockets; use fewer ranks per host, or another --depth or --hyperthreads",
        plural(ranks, "rank"), plural(depth, "hardware thread"), plural(node.cores.size(), "core"),
        plural(sockets.size(), "socket"), blocks.size());
  }
  Bindings bindings;
  for (std::size_t rank = 0; rank < ranks; ++rank) bindings.push_back(binding_to(node, std::move(blocks[rank])));
  return bindings;
}

std::vector<int> all_cpus(const NodeShape& node) {
  std::vector<int> cpus;
  for (const CoreShape& core : node.cores) cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
  std::ranges::sort(cpus);
  return cpus;
}

Result<Bindings> bind_lists(const NodeShape& node, std::size_t ranks, const Pinning& pinning) {
  if (pinning.cpu_lists.size() < ranks) {
    return base::invalid_argument(
        "--bind-to list has {}, but the host has {}: add a list for each rank, because no list is used twice, "
        "or use --bind-to share",
        plural(pinning.cpu_lists.size(), "list"), plural(ranks, "rank"));
  }
  const std::vector<int> usable = all_cpus(node);
  Bindings bindings;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::vector<int> missing;
    for (const int cpu : pinning.cpu_lists[rank]) {
      if (!usable.empty() && !std::ranges::binary_search(usable, cpu)) missing.push_back(cpu);
    }
    if (!missing.empty()) {
      return base::invalid_argument("--bind-to list gives local rank {} CPU {}, but ranks may use only {}", rank,
                                    format_cpu_list(missing), format_cpu_list(usable));
    }
    bindings.push_back(binding_to(node, pinning.cpu_lists[rank]));
  }
  return bindings;
}

}  // namespace

std::vector<int> whole_cores(const NodeShape& node, const std::vector<int>& sorted_cpus) {
  std::vector<int> cpus;
  for (const CoreShape& core : node.cores) {
    if (touches(core, sorted_cpus)) cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
  }
  std::ranges::sort(cpus);
  return cpus;
}

NodeShape usable_node(const NodeShape& node, const Pinning& pinning) {
  NodeShape usable = node;
  std::erase_if(usable.cores, [&](const CoreShape& core) {
    return std::ranges::any_of(core.cpus,
                               [&](int cpu) { return std::ranges::binary_search(pinning.reserved_cores, cpu); });
  });
  if (pinning.hyperthreads == 0) return usable;
  for (CoreShape& core : usable.cores) {
    core.cpus.resize(std::min(core.cpus.size(), static_cast<std::size_t>(pinning.hyperthreads)));
  }
  return usable;
}

Result<Bindings> bind_cpus(const NodeShape& node, int local_size, const Pinning& pinning) {
  const auto ranks = static_cast<std::size_t>(std::max(local_size, 0));
  if (node.cores.empty() && pinning.bind_to != BindTo::kList) return Bindings(ranks);
  const NodeShape usable = usable_node(node, pinning);
  if (usable.cores.empty() && !node.cores.empty()) {
    return base::invalid_argument("--reserve-cores {} leaves no core to the ranks",
                                  format_cpu_list(pinning.reserved_cores));
  }
  if (pinning.bind_to == BindTo::kDepth) return bind_depth(usable, ranks, pinning);
  if (pinning.bind_to == BindTo::kList) return bind_lists(usable, ranks, pinning);
  Bindings bindings = bind_ranks(usable, local_size, pinning.bind_to);
  if (usable == node) return bindings;
  for (RankBinding& binding : bindings) {
    if (binding.cpus.empty()) binding.cpus = all_cpus(usable);
  }
  return bindings;
}

}  // namespace muster::model
