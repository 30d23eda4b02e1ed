// Writes manual pages from the description of a command.
// Thread: any; pure.
#pragma once

#include <string>

#include "cli/help/command_doc.h"

namespace muster::cli::inline help {

// Returns the page for section 1, in the man macros of roff. For each option it also shows the key in configuration
// files and the variable.
std::string man_page(const CommandDoc& doc);

}  // namespace muster::cli::help
