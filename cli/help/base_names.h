// The names of base/status.h that most files of cli use.
#pragma once

#include "base/status.h"

namespace muster::cli::inline help {

using base::Code;
using base::error;
using base::Result;
using base::Status;

}  // namespace muster::cli::help
