// What --help and --version print. Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster::cli {

// Grouped options from the flag table and examples; at most 100 columns.
std::string hvdrun_help();

// "hvdrun 0.1.0 (<build id>), horovodrun 0.28.1 flags" and a newline.
std::string hvdrun_version(std::string_view build_id);

}  // namespace muster::cli
