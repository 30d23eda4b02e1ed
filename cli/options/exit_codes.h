// The exit codes of model/exit_code.h that hvdrun and muster's verbs return.
#pragma once

#include "model/exit_code.h"

namespace muster::cli::inline options {

using model::kHasSuspects;
using model::kHostsSilent;
using model::kMusterFailed;
using model::kNotAnswered;
using model::kStdoutClosed;
using model::kUsageError;

}  // namespace muster::cli::options
