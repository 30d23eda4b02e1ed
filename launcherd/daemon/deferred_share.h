// Decides a job's share of a host after the job was placed, once the host's agent is up.
//
// Thread: loop thread. The functions are pure, except that settle_shares() counts shares in the given table.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "launcherd/daemon/host_table.h"
#include "launcherd/queue/host_share.h"
#include "launcherd/queue/slots.h"
#include "launcherd/run/job_runner.h"
#include "model/placement.h"

namespace muster::launcherd::inline daemon {

// Returns a share for ranks that started without one and so may use the whole host. The share counts only the cores and
// GPUs that these ranks use. nullopt if the ranks could not be bound to the host as it is now.
std::optional<model::HostShare> share_that_runs(const ShareRequest& request, const model::NodeShape& node, int slots,
                                                std::span<const model::RankRequest> rank_requests);

// Returns whether the ranks can start with this share on the host as it is now.
bool still_exists(const model::HostShare& share, const ShareRequest& request, const model::NodeShape& node,
                  std::span<const model::RankRequest> rank_requests);

enum class Settling { kHostKnown, kBeforeLaunch };

struct SettledShare {
  std::string host;
  std::optional<model::HostShare> share;  // nullopt if the share was dropped, because it is unknown what its ranks use
};

// Decides the shares of a job that was placed before its hosts were fully known. It considers the hosts in `known` that
// have no share. Before the launch it also considers hosts whose share no longer exists.
//
// It counts the shares in `table`, which must know the facts about these hosts. If ranks of the job run already, a
// host without a share is no error, because such a job must not end for the sake of other jobs.
//
// Errors change nothing; the message begins with the host. UNAVAILABLE: other jobs use the share, under another name of
// the host. Other codes: the host can never provide this share.
base::Result<std::vector<SettledShare>> settle_shares(const JobNeed& need, const model::Placement& placement,
                                                      const std::vector<KnownHost>& known, Settling settling,
                                                      HostTable& table);

}  // namespace muster::launcherd::daemon
