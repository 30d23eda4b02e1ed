// `muster stacks`: shows where every rank of a foreground job is in its program. It asks the hvdrun that runs the job.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/help/command_doc.h"

namespace muster::cli::inline verbs {

const FlagTable& stacks_flags();
const CommandDoc& stacks_doc();

// Writes a file. It is replaced as a whole, unless something else than a regular file has this path, such as
// /dev/stdout.
base::Status write_picture(const std::string& path, std::string_view text);

// Returns the exit code: 0, 1 if something could not be read, 2 for a mistake in the command line or if no job is
// found.
int run_stacks(const std::string& verb, const std::vector<std::string>& arguments);

}  // namespace muster::cli::verbs
