// The JSON Schema (draft 2020-12) of launcherd.yaml, made from the table of options. Editors check and complete the
// file with it. Thread: any; pure.
#pragma once

#include <string>

namespace muster::cli::inline daemon {

std::string launcherd_schema();

}  // namespace muster::cli::daemon
