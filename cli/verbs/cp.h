// `muster cp`: copies a file or folder to or from the place where a rank of a running job runs.
#pragma once

#include <string>
#include <vector>

#include "cli/help/command_doc.h"

namespace muster::cli::inline verbs {

const CommandDoc& cp_doc();
// Returns the exit code: 0, 1 if the copy failed, 2 for a mistake in the command line, no such job or rank.
int run_cp(const std::string& verb, const std::vector<std::string>& arguments);

}  // namespace muster::cli::verbs
