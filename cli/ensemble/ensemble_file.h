// The file of `muster ensemble`: many jobs, written once. Pure.
//
//   output: results                       # DIR/NAME/rank.NN/{stdout,stderr}
//   defaults: {np: 2, timeout: 1h, env: {OMP_NUM_THREADS: 4}}
//   jobs:
//     - name: lr-{lr}-{seed}
//       sweep: {lr: [0.1, 0.01], seed: 0-3}
//       command: [python3, train.py, --lr, "{lr}", --seed, "{seed}"]
//
// A job with a sweep stands for one job for each combination; {KEY} is replaced in its name, command, environment and
// options. What is no key of the sweep stays as it is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace muster::cli::inline ensemble {

struct EnsembleJob {
  std::string name;                    // unique; fit for the name of a folder
  std::vector<std::string> arguments;  // of `muster submit`, command and all
  std::string where;                   // FILE:LINE:COLUMN
};

struct Ensemble {
  std::string output;             // as written; empty: NAME of the file without its ending
  std::vector<EnsembleJob> jobs;  // at least one, in the order of the file
};

inline constexpr std::size_t kMostEnsembleJobs = 100'000;

// Errors begin with FILE:LINE:COLUMN; an unknown key names the nearest one.
base::Result<Ensemble> parse_ensemble(std::string_view content, const std::string& file_name);

}  // namespace muster::cli::ensemble
