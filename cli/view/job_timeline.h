// Computes the times of a job's phases and ranks from its events.
// Thread: any; pure.
#pragma once

#include <string>
#include <vector>

#include "proto/muster/v1/job.pb.h"

namespace muster::cli::inline view {

enum class RunEnd {
  kRuns,       // had not ended at the last event
  kWell,       // exit code 0
  kRootCause,  // the end that the report of the job names
  kFailed,     // any other end by itself, or a start that failed
  kStopped,    // ended by Muster
  kLost,       // with its host
  kGoesOn,     // the process has another number in the next generation
};

// One process of a rank, or one phase of the job. Times are seconds since the job's first event.
struct TimelineRun {
  double begin = 0;
  double end = 0;
  RunEnd how = RunEnd::kRuns;
  std::string text{};  // for people
};

struct TimelineLane {
  std::string name{};  // "rank 3 on n2"; with many ranks "n2: ranks 4-7"
  std::vector<TimelineRun> runs{};
};

struct Timeline {
  double length = 0;  // seconds between the first and the last event
  std::vector<TimelineRun> phases{};
  std::vector<TimelineLane> lanes{};  // by host in the order of the placement, then by rank
};

// Above this number of ranks a lane shows all ranks of a host: from the first start to the last end, with the worst
// end.
inline constexpr int kMaxRankLanes = 256;

// `events` are in their order. Ranks that are not placed (of spawned worlds) have lanes without a host.
Timeline timeline_of(const std::vector<v1::Event>& events);

}  // namespace muster::cli::view
