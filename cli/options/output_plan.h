// Holds what hvdrun prints about a job, and where its events go. The files of the ranks' output belong to the job:
// output_dir and log_dir of model/job_spec.h.
#pragma once

#include <string>
#include <vector>

#include "cli/help/color.h"
#include "cli/options/fold_option.h"
#include "model/label_format.h"

namespace muster::cli::inline options {

struct OutputPlan {
  model::LabelFormat label{};          // text before each line of the ranks
  Fold fold = Fold::kAuto;             // whether equal lines of several ranks are shown once
  ColorWhen color = ColorWhen::kAuto;  // of Muster's own lines
  std::string events_file{};           // --json-events; empty if not given
  std::string tensorboard_dir{};       // --tensorboard; empty if not given
  bool reports_bindings = false;       // print the binding of each rank, a line each
  bool verbose = false;                // also print Muster's own progress
  bool quiet = false;                  // hide Muster's own lines, except those that ask the user to act
  std::vector<std::string> notes{};    // one line each; the caller prints them before the job starts
};

}  // namespace muster::cli::options
