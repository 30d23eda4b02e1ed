// --dry-run: shows which rank would run where, with which cores and GPUs. It contacts no other host, unless --probe
// asks for it.
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
  std::vector<int> cpus;  // empty if not bound, or not known
  // The rank's own GPUs, by the driver's numbers. Empty if there are none, or if they are not known.
  std::vector<int> gpus;
  std::optional<int> tile{};  // the only tile of that GPU that the rank has; nullopt if it has whole GPUs
};

struct DryHost {
  const model::PlacedHost* host = nullptr;
  bool is_known = false;  // true if its shape is known
  std::vector<DryRank> ranks;
  std::vector<std::string> remarks;  // from NodeBinding and crowd_remark()
};

// Plans the ranks of `placement` on hosts of these shapes. Pure.
// `shapes` has one entry for each host of `placement`; nullopt if the shape is not known.
// `launcher` is the launcher's environment. Its masks over GPUs may be among the variables that the ranks get.
// INVALID_ARGUMENT if the ranks cannot be pinned so on a host; the message names it. The result borrows from
// `placement`.
base::Result<std::vector<DryHost>> plan_dry_run(const model::Placement& placement,
                                                const std::vector<std::optional<model::NodeShape>>& shapes,
                                                const model::JobSpec& job, const base::Environment& launcher);

// Formats one line for each rank: rank, host, local and cross rank, GPU, cores. '-' means not known; "all" means not
// bound.
std::string format_dry_run(const std::vector<DryHost>& hosts, const model::Placement& placement = {});

// Returns a muster.v1.Placement as JSON on one line.
std::string dry_run_json(const model::Placement& placement, const std::vector<DryHost>& hosts);

// Returns for each host its shape, or why it cannot be asked. A single error means that no host can be asked.
using ProbeJobHosts = std::function<std::vector<base::Result<model::NodeShape>>(
    const model::JobSpec& job, const std::vector<model::HostSpec>& hosts)>;

// Prints the plan of these options on stdout and returns the exit code. It calls `ask` for the shape of this machine,
// or with --probe for the shapes of all hosts.
int run_dry(HvdrunOptions options, const base::Environment& environment, const ProbeJobHosts& ask);

}  // namespace muster::cli::hosts
