// Manual pages, written from what there is to say about a command. Pure.
#pragma once

#include <string>

#include "cli/help/command_doc.h"

namespace muster::cli::inline help {

// In the man macros of roff, section 1. For each option also its key in configuration files and its variable.
std::string man_page(const CommandDoc& doc);

}  // namespace muster::cli::help
