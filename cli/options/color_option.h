// --color: whether what a program says about itself has colours. All programs and verbs have this option.
// Thread: any; the data is constant and the functions are pure.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "cli/help/color.h"
#include "cli/help/flag_row.h"
#include "cli/options/command_line.h"
#include "cli/options/settings.h"

namespace muster::cli::inline options {

// Returns the row for --color in the table of options.
FlagRow color_row();

// Reads --color. INVALID_ARGUMENT if the value is unknown; the message names the option.
base::Result<ColorWhen> read_color(const Settings& settings);

// True for a line whose options may stand behind other words, as those of most verbs.
enum class OptionsEnd { kAtFirstWord, kNowhere };

// Finds --color in a line before it is read, because help and the message about a mistake need it too. Returns kAuto if
// there is none, or one with an unknown value.
ColorWhen typed_color(const std::vector<std::string>& words, const FlagTable& table,
                      OptionsEnd end = OptionsEnd::kAtFirstWord);

// True if the option asks for a help text.
bool is_help(const ParsedOption& option);

}  // namespace muster::cli::options
