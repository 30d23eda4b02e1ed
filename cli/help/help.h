// The texts of --help and --version.
// Thread: any; pure.
#pragma once

#include <string>
#include <string_view>

#include "cli/help/command_doc.h"

namespace muster::cli::inline help {

// Returns usage, grouped options, examples and exit codes, in at most 98 columns.
std::string help_text(const CommandDoc& doc);

// Returns "hvdrun 0.1.0 (<build id>), horovodrun 0.28.1 flags" and a newline.
std::string version_text(std::string_view program, std::string_view build_id);

}  // namespace muster::cli::help
