// What --help and --version print. Pure.
#pragma once

#include <string>
#include <string_view>

#include "cli/help/command_doc.h"

namespace muster::cli::inline help {

// Usage, grouped options, examples and exit codes; at most 98 columns.
std::string help_text(const CommandDoc& doc);

// "hvdrun 0.1.0 (<build id>), horovodrun 0.28.1 flags" and a newline.
std::string version_text(std::string_view program, std::string_view build_id);

}  // namespace muster::cli::help
