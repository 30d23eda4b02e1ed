// The texts of --help, -h and --version.
// Thread: any; pure.
#pragma once

#include <string>
#include <string_view>

#include "cli/help/command_doc.h"
#include "cli/help/text_look.h"

namespace muster::cli::inline help {

// Returns all that the command has to say: usage, grouped options, examples and exit codes. No line is longer than
// the look says, except the commands of examples: they stay whole, so that they can be copied.
std::string help_text(const CommandDoc& doc, const TextLook& look = {});

// Returns usage, the most used options with one sentence each, and two examples. For a program with verbs it lists
// the verbs instead of options.
std::string short_help_text(const CommandDoc& doc, const TextLook& look = {});

// Answers `option`, which is --help or -h.
std::string help_text_for(const Flag& option, const CommandDoc& doc, const TextLook& look);

// Returns "hvdrun 0.1.0 (<build id>), horovodrun 0.28.1 flags" and a newline.
std::string version_text(std::string_view program, std::string_view build_id);

}  // namespace muster::cli::help
