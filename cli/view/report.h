// What hvdrun tells about the end of a job, as lines of text. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcherd/run/job_runner.h"

namespace muster::cli::inline view {

// "rank 3 on n2 (pid 4242): exit code 1"; with its role "rank 3 (worker) on n2 …".
std::string format_root_cause(const model::RankEnd& root, std::string_view role = {});

// Everything after the root cause line: its last stderr lines, the consequences, failed and unclean hosts, strays, and
// the last line with ranks, hosts and time. For a job that ended well only the last line, and that only if
// `is_terminal` or something had to be cleaned up.
std::vector<std::string> format_outcome(const launcherd::JobOutcome& outcome, bool is_terminal);

// "1 rank", "2 ranks".
std::string plural(int count, const char* one, const char* many);

// "0.12 s", "1.2 s", "3 min 20 s", "2 h 5 min".
std::string format_duration(base::Duration duration);

}  // namespace muster::cli::view
