// Formats the report of `muster cleanup`. Text of hosts is made printable.
// Thread: any; pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "cli/view/short_rows.h"
#include "proto/muster/v1/cleanup.pb.h"

namespace muster::cli::inline doctor {

// Returns a table of the strays, lines for strays that were not touched and hosts that did not report, and a last line
// with counts. `job` is the only job that the user asked for; empty means all jobs. Of more than `most` strays, those
// that are left come first, and a line counts the others.
std::string format_cleanup(const std::vector<v1::CleanupReport>& reports, const std::string& job,
                           std::size_t most = kAllRows);

// Returns 0 if nothing is left, 1 if something is left or not known, 125 if no host could be asked.
int cleanup_exit_code(const std::vector<v1::CleanupReport>& reports, const std::string& job);

// Returns all jobs that the reports name, including those that still run.
std::set<std::string> jobs_of(const std::vector<v1::CleanupReport>& reports);

}  // namespace muster::cli::doctor
