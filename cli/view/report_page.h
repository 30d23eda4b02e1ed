// A page about one or several jobs, for `muster report`.
// Thread: any; pure.
#pragma once

#include <string>
#include <vector>

#include "proto/muster/v1/job.pb.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline view {

struct ReportedJob {
  v1::Job job;
  std::vector<v1::Event> events;  // all, in their order
};

// One job in a scaling chart.
struct ScalingPoint {
  std::string job;
  int ranks = 0;
  double seconds = 0;     // from the moment at which the last rank ran to the end
  double speedup = 0;     // compared with the job of the fewest ranks, the fastest of them
  double efficiency = 0;  // speedup divided by the growth of the ranks; 1 is perfect
};

// Returns a point for each job that has ended with exit code 0 after all ranks ran, in the order of ranks, then time.
// The jobs must do the same work (strong scaling); this function cannot know it.
std::vector<ScalingPoint> scaling_of(const std::vector<ReportedJob>& jobs);

// Returns an HTML document without scripts that needs no other file. It has a time line of phases and ranks for each
// job, and with several jobs a chart of run time and efficiency over the number of ranks.
std::string report_page(const std::vector<ReportedJob>& jobs);

}  // namespace muster::cli::view
