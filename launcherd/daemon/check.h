// Looks at what launcherd would use, without opening, making or starting anything: launcherd --check.
// Thread: any. Blocks as long as the file systems do.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "launcherd/daemon/daemon.h"

namespace muster::launcherd::inline daemon {

struct CheckLine {
  std::string what;  // "state", "page"
  std::string text;  // what was found; for a mistake one sentence with the next step
  bool is_wrong = false;
};

std::vector<CheckLine> check_daemon(const DaemonOptions& options, base::WallTime now);

}  // namespace muster::launcherd::daemon
