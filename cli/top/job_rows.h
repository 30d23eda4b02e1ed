// Rows of jobs and of ranks on the screen of `muster top`.
// Thread: any; pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cli/top/column_table.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline top {

// Returns the table's lines: its heading, then one for each job. nullptr is a row that has not arrived yet. `selected`
// is an index into `jobs`; -1 for none.
std::vector<StyledLine> job_table_lines(const std::vector<const v1::Job*>& jobs, int selected, base::WallTime now,
                                        int width);

// Does the same for ranks of a job.
std::vector<StyledLine> rank_table_lines(const v1::Job& job, const std::vector<const v1::RankStatus*>& ranks,
                                         int selected, int width);

// Returns "n3 +12 ms" for the latest rank of a job if it is late often enough to be named; else an empty text.
std::string late_text(const v1::Job& job);

TextStyle style_of(v1::JobState state);

}  // namespace muster::cli::top
