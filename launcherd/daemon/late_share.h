// What is decided of a job's share of a host when the host's agent is up, later than its placement. Pure,
// but for the table in which settle_shares() counts it.
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

// What ranks have that were started as if the host was all theirs: nothing is decided by it, it is counted. nullopt:
// they could not be bound there as it is now.
std::optional<model::HostShare> share_that_runs(const ShareWish& wish, const model::NodeShape& node, int slots,
                                                std::span<const model::RankWish> wishes);

// Whether the ranks can be started with it on the host as it is now.
bool is_there_still(const model::HostShare& share, const ShareWish& wish, const model::NodeShape& node,
                    std::span<const model::RankWish> wishes);

enum class Settling { kHostKnown, kBeforeLaunch };

struct SettledShare {
  std::string host;
  std::optional<model::HostShare> share;  // nullopt: any more none, as its ranks run on what is not known
};

// The shares of a job that was placed before all was known. Of those of its hosts that are among `known`: where it has
// none; before the launch, also where its share is not there any more. They are counted in `table`, which has learnt of
// the hosts. Errors change nothing; the sentence begins with the host. UNAVAILABLE: other jobs have it, who are there
// by another name of the host; others: it is never to be had there. Where ranks of the job run there is none: it is not
// ended for the sake of others.
base::Result<std::vector<SettledShare>> settle_shares(const JobNeed& need, const model::Placement& placement,
                                                      const std::vector<KnownHost>& known, Settling settling,
                                                      HostTable& table);

}  // namespace muster::launcherd::daemon
