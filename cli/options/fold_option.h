// --fold: whether equal lines of several ranks are one line on the console. hvdrun, muster logs and muster attach have
// this option.
// Thread: any; the data is constant and the functions are pure.
#pragma once

#include "base/status.h"
#include "cli/help/flag_row.h"
#include "cli/options/settings.h"

namespace muster::cli::inline options {

enum class Fold {
  kAuto,  // as kOn for each stream that is a terminal, if labels name the rank
  kOff,
  kOn,
  kNumbers,  // as kOn; lines that differ only in their numbers are equal, too
};

// Returns the row for --fold in the table of options.
FlagRow fold_row();

// Reads --fold. INVALID_ARGUMENT if the value is unknown; the message names the option.
base::Result<Fold> read_fold(const Settings& settings);

}  // namespace muster::cli::options
