// The program horovodrun: hvdrun under another name. Python's argparse lets users of horovodrun abbreviate options, so
// this name takes abbreviations, too. hvdrun does not: an option that it gets later could make one ambiguous. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::cli::inline options {

// Whether a program that was called as `argv0` stands for horovodrun.
bool is_horovodrun(std::string_view argv0);

// The long option of horovodrun 0.28.1 that `word` begins, as "--cycle" begins "--cycle-time-ms"; nullopt if none.
// Only horovodrun's own options count, so that hvdrun's make nothing ambiguous. INVALID_ARGUMENT: `word` begins several
// options, also two spellings of one, as in argparse; the message names them.
base::Result<std::optional<std::string>> expand_abbreviation(std::string_view word);

}  // namespace muster::cli::options
