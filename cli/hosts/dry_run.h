// --dry-run: who would run where, with which cores and GPUs. Contacts no other host, unless --probe says so.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "cli/options/node_shapes.h"
#include "cli/options/options.h"
#include "model/placement.h"

namespace muster::cli::inline hosts {

struct DryRank {
  const model::PlacedRank* place = nullptr;
  std::vector<int> cpus;      // empty: not bound, or not known
  std::vector<int> gpus;      // its own, by the driver's number; none: there is none, or it is not known
  std::optional<int> tile{};  // of it, where it has that alone
};

struct DryHost {
  const model::PlacedHost* host = nullptr;
  bool is_known = false;  // its shape is
  std::vector<DryRank> ranks;
  std::vector<std::string> remarks;  // of NodeBinding, crowd_remark()
};

// `shapes`: one for each host of `placement`; nullopt: not known. `launcher`: its environment, of which masks over GPUs
// may be sent to the ranks. INVALID_ARGUMENT: a host, which it names, is not such that its ranks can be pinned so.
// Borrows from `placement`. Pure.
base::Result<std::vector<DryHost>> plan_dry_run(const model::Placement& placement,
                                                const std::vector<std::optional<model::NodeShape>>& shapes,
                                                const model::JobSpec& job, const base::Environment& launcher);

// One line a rank: rank, host, local and cross rank, cores, GPU; '-' where something is not known, "all" where nothing
// is bound.
std::string format_dry_run(const std::vector<DryHost>& hosts, const model::Placement& placement = {});

// A muster.v1.Placement on one line.
std::string dry_run_json(const model::Placement& placement, const std::vector<DryHost>& hosts);

// The shape of each of the hosts, or why it cannot be asked; a single error when nobody can.
using AskShapes = std::function<std::vector<base::Result<model::NodeShape>>(const HvdrunOptions& options,
                                                                            const std::vector<model::HostSpec>& hosts)>;

// Prints the plan of these options to stdout; this machine is as `ask` says, with --probe all hosts are. Returns the
// exit code.
int run_dry(HvdrunOptions options, const base::Environment& environment, const AskShapes& ask);

}  // namespace muster::cli::hosts
