// --label-format, --no-label and -prefix-timestamp: what stands before each line of the ranks on the console. For
// hvdrun, muster logs and muster attach. Constant data and pure; any thread.
#pragma once

#include "base/status.h"
#include "cli/help/flag_row.h"
#include "cli/options/settings.h"
#include "model/label_format.h"

namespace muster::cli::inline options {

// --label-format TEXT, --no-label.
FlagRow label_row();

// From --label-format and --no-label. INVALID_ARGUMENT: the text is no format; the message names the option.
base::Result<model::LabelFormat> read_label_format(const Settings& settings);

}  // namespace muster::cli::options
