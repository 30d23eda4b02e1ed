// --label-format, --no-label and -prefix-timestamp: the text before each line of the ranks on the console. hvdrun,
// muster logs and muster attach have these options.
// Thread: any; the data is constant and the functions are pure.
#pragma once

#include "base/status.h"
#include "cli/help/flag_row.h"
#include "cli/options/settings.h"
#include "model/label_format.h"

namespace muster::cli::inline options {

// Returns the row for --label-format TEXT and --no-label in the table of options.
FlagRow label_row();

// Reads the label from --label-format, --no-label and -prefix-timestamp. INVALID_ARGUMENT if the text is no format; the
// message names the option.
base::Result<model::LabelFormat> read_label_format(const Settings& settings);

}  // namespace muster::cli::options
