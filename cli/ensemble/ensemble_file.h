// Reads the file of `muster ensemble`, which describes many jobs.
// Thread: any; pure.
// Example:
//
//   output: results                       # DIR/NAME/rank.NN/{stdout,stderr}
//   defaults: {np: 2, timeout: 1h, env: {OMP_NUM_THREADS: 4}}
//   jobs:
//     - name: lr-{lr}-{seed}
//       sweep: {lr: [0.1, 0.01], seed: 0-3}
//       command: [python3, train.py, --lr, "{lr}", --seed, "{seed}"]
//
// A job with a sweep means one job for each combination of values. {KEY} is replaced in its name, command, environment
// and options. Braces around a word that is no key of the sweep stay unchanged.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace muster::cli::inline ensemble {

struct EnsembleJob {
  std::string name;                    // unique, and valid as the name of a folder
  std::vector<std::string> arguments;  // the arguments of `muster submit`, the command included
  std::string where;                   // FILE:LINE:COLUMN
};

struct Ensemble {
  std::string output;             // as the user wrote it; empty means the file's name without its ending
  std::vector<EnsembleJob> jobs;  // at least one, in the order of the file
};

inline constexpr std::size_t kMostEnsembleJobs = 100'000;

// Errors begin with FILE:LINE:COLUMN. For an unknown key the error names the nearest known key.
base::Result<Ensemble> parse_ensemble(std::string_view content, const std::string& file_name);

}  // namespace muster::cli::ensemble
