// The program horovodrun is hvdrun under another name. Python's argparse lets users of horovodrun abbreviate options,
// so this name accepts abbreviations, too. hvdrun does not, because a future option could make an abbreviation
// ambiguous.
// Thread: any; all functions are pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::cli::inline options {

// True if `argv0` calls the program by the name horovodrun.
bool is_horovodrun(std::string_view argv0);

// Completes an abbreviation: returns the long option of horovodrun 0.28.1 that begins with `word`. For example,
// "--cycle" becomes "--cycle-time-ms". nullopt if no option begins with it. hvdrun's own options do not count, so they
// cannot make an abbreviation ambiguous.
// INVALID_ARGUMENT if several options begin with `word`, even if they are two spellings of one option. argparse refuses
// these, too. The message names them.
base::Result<std::optional<std::string>> expand_abbreviation(std::string_view word);

}  // namespace muster::cli::options
