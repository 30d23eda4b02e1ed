// `muster compat`: shows which real clients were tested against this build of Muster, and the results.
// The rows are the clients that Muster supports. The end-to-end tests write their results beside the programs, in
// share/muster/compat. A client that the tests did not find installed is "not run".
#pragma once

#include <string>
#include <vector>

#include "cli/help/command_doc.h"
#include "proto/muster/v1/compat.pb.h"

namespace muster::cli::inline verbs {

// Returns one result for each known client, in the order of docs/compat.md. `directory` holds <client>.json files;
// other files are ignored. A file that cannot be read counts as missing, and `problems` gets a sentence about it.
std::vector<v1::ClientResult> read_compat(const std::string& directory, std::vector<std::string>* problems);

// Formats a table. `build` is the build of this program; a result of another build is marked.
std::string format_compat(const std::vector<v1::ClientResult>& results, const std::string& build);

const CommandDoc& compat_doc();

// Returns the exit code: 0, 1 if a client failed, 2 for a mistake in the command line.
int run_compat(const std::string& verb, const std::vector<std::string>& arguments);

}  // namespace muster::cli::verbs
