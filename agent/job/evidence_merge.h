// Makes a rank's evidence from two looks at it (agent/commands/look_report.h), for the report of a job that hangs.
//
// Thread: any; pure.
#pragma once

#include <chrono>

#include "proto/muster/v1/job.pb.h"

namespace muster::agent::inline job {

// True if the main thread was not at the same place at both looks. If the place is not known, a process that has used
// a noticeable part of the time between the looks as CPU time counts as moving.
bool has_moved(const v1::RankEvidence& first, const v1::RankEvidence& second, std::chrono::milliseconds between);

// Returns what the second look has seen, completed by a comparison with the first one. `first` is nullptr if there is
// only one look.
v1::RankEvidence merge_looks(const v1::RankEvidence* first, const v1::RankEvidence& second,
                             std::chrono::milliseconds between);

}  // namespace muster::agent::job
