// What a host looks like to the binder, and the binder: which cores a rank may use. Pure; hwloc fills NodeShape in the
// agent.
#pragma once

#include <string>
#include <vector>

namespace muster::model {

struct CoreShape {
  int socket = 0;
  int numa = 0;
  std::vector<int> cpus;  // hardware threads (OS numbers) of this core that the agent is allowed to use; never empty

  bool operator==(const CoreShape&) const = default;
};

struct NodeShape {
  std::vector<CoreShape> cores;  // in hwloc's logical order, only allowed ones
  long memory_mib = 0;

  bool operator==(const NodeShape&) const = default;
};

enum class BindTo { kShare, kNone, kCore, kNuma, kSocket };

struct RankBinding {
  std::vector<int> cpus;   // sorted OS numbers; empty: not bound
  int physical_cores = 0;  // of the share: OMP_NUM_THREADS; 0: leave it alone
};

// One entry a local rank. kShare: equal, socket-respecting shares of the allowed cores (no rank's share crosses a
// socket while local_size >= sockets); more ranks than cores -> nobody is bound and physical_cores is 1.
std::vector<RankBinding> bind_ranks(const NodeShape& node, int local_size, BindTo bind_to);

// "0-3,8".
std::string format_cpu_list(std::vector<int> cpus);

}  // namespace muster::model
