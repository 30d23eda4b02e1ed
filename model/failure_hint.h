// Says what a failed rank's end means and what to do: the lines that follow the end of the rank in a report.
//
// Pure: from the end, the facts that its host sent, and the last lines of its stderr. hvdrun, muster and launcherd show
// the same lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/exit_report.h"

namespace muster::model {

// Returns at most three lines without line ends, such as "it had used up to 61.2 GiB of memory, …". Empty if there is
// nothing to add. `alike` are the ends of the ranks that failed like `end`, without it. `stderr_tail` may be empty.
std::vector<std::string> failure_hints(const RankEnd& end, const std::vector<RankEnd>& alike,
                                       std::string_view stderr_tail);

// Returns "512 MiB" or "61.2 GiB".
std::string format_mib(std::int64_t mib);

}  // namespace muster::model
