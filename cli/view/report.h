// Formats hvdrun's report of the end of a job, as lines of text.
// Thread: any; pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcherd/run/job_runner.h"
#include "proto/muster/v1/job.pb.h"

namespace muster::cli::inline view {

// Returns "rank 3 on n2 (pid 4242): exit code 1". With a role it begins "rank 3 (worker) on n2 …".
std::string format_root_cause(const model::RankEnd& root, std::string_view role = {});

// Returns a line of format_root_cause() with the rank and its host in the colour of errors.
std::string mark_rank(std::string_view root_cause, bool has_color);

// Returns all lines after the root cause: its last stderr lines, the consequences, failed and unclean hosts, strays.
// The last line has ranks, hosts and time.
// A job that ended well gets only the last line, and only if `is_terminal` or something had to be cleaned up.
// `has_shown_stderr` means that the same stream already has the ranks' stderr. A traceback is not repeated then.
std::vector<std::string> format_outcome(const launcherd::JobOutcome& outcome, bool is_terminal,
                                        bool has_shown_stderr = false);

// Returns the lines about the root cause of a job that has ended: how its rank ended, and what to do. Empty if no rank
// failed by itself.
std::vector<std::string> format_report(const v1::ExitReport& report);

// Returns "1 rank", "2 ranks".
std::string plural(int count, const char* one, const char* many);

// Returns "0.12 s", "1.2 s", "3 min 20 s" or "2 h 5 min".
std::string format_duration(base::Duration duration);

}  // namespace muster::cli::view
