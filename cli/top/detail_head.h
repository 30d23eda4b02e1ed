// The lines above the table on the screens for one job and for one host. The most important ones come first, because
// small screens show only some.
// Thread: any; pure.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "cli/top/styled_line.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline top {

// `job` is nullptr before its first answer, or if there is none; `problem` then says why. At least one line.
std::vector<StyledLine> job_head(const v1::Job* job, const std::string& id, const std::string& problem,
                                 base::WallTime now);

// `host` is nullptr if launcherd has no host of this name. At least one line.
std::vector<StyledLine> host_head(const v1::LauncherHost* host, const std::string& name);

}  // namespace muster::cli::top
