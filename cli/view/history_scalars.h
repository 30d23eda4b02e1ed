// Writes what launcherd keeps of a job, about the last hour, into a file for TensorBoard: `muster report
// --tensorboard`.
#pragma once

#include <vector>

#include "base/status.h"
#include "cli/view/report_page.h"
#include "cli/view/tensorboard_file.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline view {

// The values of one moment.
struct HistoryRecord {
  base::WallTime time;
  std::int64_t step = 0;  // seconds since the job's first event, or since it started
  std::vector<TensorboardValue> values;
};

// Returns the records in the order of time: the points of job and hosts since the job's start, generations, hangs, and
// the scores of the job's late ranks as they are now. Pure.
std::vector<HistoryRecord> history_scalars(const ReportedJob& job, const v1::HistoryResponse& history,
                                           base::WallTime now);

}  // namespace muster::cli::view
