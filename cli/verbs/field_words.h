// Says a refusal of launcherd in the words of the command line. launcherd names the fields of its API, because other
// clients have no options.
// Thread: any; pure.
#pragma once

#include "base/status.h"
#include "cli/help/flags.h"

namespace muster::cli::inline verbs {

// Replaces the fields in an INVALID_ARGUMENT by the options of `table` that set them: "spec.size: 3 is not between
// min_ranks and max_ranks" becomes "-np: 3 is not between --min-np and --max-np". Other statuses stay as they are, and
// so does a field that no option sets.
base::Status in_words_of_options(const base::Status& refusal, const FlagTable& table);

}  // namespace muster::cli::verbs
