// --print-config: shows every setting with its value and its origin.
// Thread: any; pure.
#pragma once

#include <string>

#include "cli/options/settings.h"

namespace muster::cli::inline options {

// Returns a configuration file that has the same effect. Comments name the origin of each value.
// For variables of the ranks it shows only the names, in a comment, because their values may be secret.
std::string format_settings(const Settings& settings, const FlagTable& table);

}  // namespace muster::cli::options
