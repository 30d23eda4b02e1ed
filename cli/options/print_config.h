// --print-config: every setting with its value and where that comes from. Pure.
#pragma once

#include <string>

#include "cli/options/settings.h"

namespace muster::cli::inline options {

// A configuration file with the same effect; origins are comments. Of variables for the ranks only the names are shown,
// in a comment: their values are nobody else's business.
std::string format_settings(const Settings& settings, const FlagTable& table);

}  // namespace muster::cli::options
