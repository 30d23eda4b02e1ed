// `muster stacks`: where every rank of a foreground job is, asked of the hvdrun that runs it.
#pragma once

#include <string>
#include <vector>

#include "cli/help/command_doc.h"

namespace muster::cli::inline verbs {

const FlagTable& stacks_flags();
const CommandDoc& stacks_doc();

// The exit code: 0, 1 when something could not be read, 2 for a mistake in the command line or when no job is meant.
int run_stacks(const std::string& verb, const std::vector<std::string>& arguments);

}  // namespace muster::cli::verbs
